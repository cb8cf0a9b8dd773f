"""Bodies that arrive in small pieces.

A server may send each byte as a chunk of its own. Each piece costs time, whatever its size. One
read of a connection brings up to ten thousand, between which the HTTP libraries let nobody run.
"""

import asyncio
from collections.abc import AsyncIterator

BYTES_PER_PIECE = 64
"""A body may have one piece for each so many bytes of its limit."""

_AT_ONCE = 128
"""Others may run after so many pieces, which take up to five milliseconds."""


async def interruptible(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a body, between which others may run."""
    number = 0
    async for piece in pieces:
        number += 1
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        yield piece
