"""How much memory takes what is kept there: roughly, for a bound."""

import asyncio
import sys
from collections.abc import Iterable
from itertools import chain
from sys import getsizeof
from typing import Any

from harmony.messages import Message
from server.store.items import StoredItem

MOST_BYTES = 2**28
"""What a store in memory may measure of each kind: responses, conversations, completions."""

_OBJECT_BYTES = 1000
"""What is held beside what a part says: a message's other fields, the keys to find it by."""

_TOKEN_BYTES = 40
_FEW = 100
_LIGHT = 4096  # values that are weighed in a millisecond
_AT_ONCE = 4096

Part = StoredItem | Message | dict[str, Any] | bytes


class MemorySizes:
    """The bytes of all parts that are held; a part that several hold counts once.

    Parts are told apart by identity: hold none that is not kept until it is released.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[int, tuple[int, int]] = {}
        self._weighed: dict[int, int] = {}

    async def measure(self, parts: Iterable[Part]) -> None:
        """Weigh what `hold` is given right after it: many or large parts on a thread."""
        new = [part for part in parts if id(part) not in self._held]
        large = new if len(new) > _FEW else [part for part in new if not self._weigh(part)]
        if large:
            weights = await asyncio.to_thread(lambda: [_size_of(part) for part in large])
            self._weighed.update(zip(map(id, large), weights, strict=True))

    def _weigh(self, part: Part) -> bool:
        """Weigh a part, unless it is large."""
        try:
            self._weighed[id(part)] = _size_of(part, _LIGHT)
        except _Large:
            return False
        return True

    def hold(self, parts: Iterable[Part]) -> None:
        """Count the parts, once more for each time that they are given."""
        for part in parts:
            holders, weight = self._held.get(id(part), (0, 0))
            if not holders:
                weighed = self._weighed.pop(id(part), None)
                weight = _size_of(part) if weighed is None else weighed
                self.total += weight
            self._held[id(part)] = (holders + 1, weight)

    def release(self, parts: Iterable[Part]) -> None:
        """Take back what `hold` was given."""
        for part in parts:
            holders, weight = self._held.pop(id(part))
            if holders > 1:
                self._held[id(part)] = (holders - 1, weight)
            else:
                self.total -= weight


class _Large(Exception):
    """It has more values than are to be looked at."""


def _size_of(part: Part, most: int = sys.maxsize) -> int:
    """most: values that are looked at in JSON. Raises _Large where it has more."""
    match part:
        case StoredItem(item, message):
            return _size_of(item, most) + (0 if message is None else _size_of(message))
        case Message(content=content, tokens=tokens):
            return _OBJECT_BYTES + getsizeof(str(content)) + _TOKEN_BYTES * len(tokens or ())
        case bytes():
            return len(part)
        case _:
            return _OBJECT_BYTES + _size_of_json(part, most)


def _size_of_json(value: Any, most: int) -> int:
    """At least what the value takes: what it holds several times counts each time.

    The text says little: an empty array takes 2 bytes there, and 64 in memory.
    """
    total, level = 0, [value]
    while level:
        # In slices, between which other threads run.
        for first in range(0, len(level), _AT_ONCE):
            total += sum(map(getsizeof, level[first : first + _AT_ONCE]))
        outers = [one for one in level if isinstance(one, dict | list | tuple)]
        most -= sum(map(len, outers))
        if most < 0:
            raise _Large
        level = [
            inner
            for outer in outers
            for inner in (chain(outer, outer.values()) if isinstance(outer, dict) else outer)
        ]
    return total
