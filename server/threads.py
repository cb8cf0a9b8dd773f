"""Decides whether work runs on the event loop or on a thread.

Small work takes less time than the switch to a thread and back, especially on a busy machine. Large
work would block all other answers.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MOST_SMALL = 4096
"""Characters that take about a millisecond to tokenize or to parse."""

_VALUE = 16  # the cost of a value without text, in characters


async def run(work: Callable[[], T], *, small: bool) -> T:
    """The result of `work`, which runs on the event loop if `small`, else on a thread."""
    return work() if small else await asyncio.to_thread(work)


def is_small(value: Any, most: int = MOST_SMALL) -> bool:
    """Whether a JSON value has little text and few values. The time for large values is bounded.

    most: the limit in characters; each value counts as 16 beside its text.
    """
    budget, pending = most, [value]
    while pending and budget >= 0:
        item = pending.pop()
        budget -= _VALUE
        if isinstance(item, str):
            budget -= len(item)
        elif isinstance(item, dict | list):
            # Charged before they are visited: there may be millions.
            budget -= _VALUE * len(item)
            if budget >= 0:
                pending.extend(item)  # an object's names
                pending.extend(item.values() if isinstance(item, dict) else ())
    return budget >= 0
