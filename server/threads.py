"""What is done on the event loop, and what on a thread.

A thread and the way back take longer than small work does, most of all beside others that compute;
large work would keep all other answers waiting.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MOST_SMALL = 4096
"""Characters that are worked through in about a millisecond, tokenized or read."""

_VALUE = 16  # what a value without text takes, in characters


async def run(work: Callable[[], T], *, small: bool) -> T:
    """The work's result: at once where it is small."""
    return work() if small else await asyncio.to_thread(work)


def is_small(value: Any, most: int = MOST_SMALL) -> bool:
    """Whether JSON has little text and few values in it. Takes as long for any large one.

    most: characters; a value counts as 16, and text as many as it has.
    """
    left, waiting = most, [value]
    while waiting and left >= 0:
        one = waiting.pop()
        left -= _VALUE
        if isinstance(one, str):
            left -= len(one)
        elif isinstance(one, dict | list):
            # Before they are looked at one by one: there may be millions.
            left -= _VALUE * len(one)
            if left >= 0:
                waiting.extend(one)  # an object's names
                waiting.extend(one.values() if isinstance(one, dict) else ())
    return left >= 0
