"""Bodies in small pieces let others run."""

import asyncio
from collections.abc import AsyncIterator

from server.tools.fetch.pieces import interruptible


async def bytes_one_by_one(number: int) -> AsyncIterator[bytes]:
    """Pieces that have all arrived: none is waited for."""
    for _ in range(number):
        yield b"x"


async def test_all_pieces_are_given_in_their_order() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(1000):
            yield b"%d" % number

    assert [piece async for piece in interruptible(pieces())] == [b"%d" % n for n in range(1000)]


async def test_others_run_between_the_pieces_of_a_body() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    async for _ in interruptible(bytes_one_by_one(10_000)):
        pass
    running.cancel()
    assert turns > 50
