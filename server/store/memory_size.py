"""Estimates how much memory stored objects take, to limit it."""

import sys
from collections.abc import Iterable, Mapping
from itertools import chain
from sys import getsizeof
from typing import Any

from harmony.messages import Message
from server import threads
from server.encoding.json_pieces import EncodedArray
from server.store.items import StoredItem

CAPACITY = 10_000
MOST_BYTES = 2**28
"""The limits of a store in memory for each kind: responses, conversations, completions."""

_OBJECT_BYTES = 1000
"""The overhead of a part: a message's other fields, and the keys of the indices."""

_TOKEN_BYTES = 40
_MOST_PARTS = 100  # that are measured without a thread
_MOST_VALUES = 4096  # that are measured in a millisecond
_SLICE = 4096

Part = StoredItem | Message | dict[str, Any] | bytes


Measured = Mapping[int, int]
"""Sizes by the `id()` of the parts, which the caller keeps until they are added."""

NOT_MEASURED: Measured = {}


class MemorySizes:
    """The total size of the parts in memory, in bytes. A part with several references counts once.

    Parts are identified by `id()`: the caller keeps a reference to each until it is removed.
    """

    def __init__(self) -> None:
        self.total = 0
        self._references: dict[int, tuple[int, int]] = {}

    async def measure(self, parts: Iterable[Part]) -> Measured:
        """Measure the parts before they are added; many or large parts on a thread."""
        new = [part for part in parts if id(part) not in self._references]
        measured: dict[int, int] = {}
        large = new
        if len(new) <= _MOST_PARTS:
            large = [part for part in new if not _measure_small(part, measured)]
        if large:
            sizes = await threads.run(lambda: [*map(_size_of, large)], threads.Size.MEDIUM)
            measured.update(zip(map(id, large), sizes, strict=True))
        return measured

    def of(self, part: Part) -> int:
        """Return the size of a part that was added, in bytes."""
        return self._references[id(part)][1]

    def add(self, parts: Iterable[Part], measured: Measured = NOT_MEASURED) -> None:
        """Add a reference to each part."""
        for part in parts:
            references, size = self._references.get(id(part), (0, 0))
            if not references:
                known = measured.get(id(part))
                size = _size_of(part) if known is None else known
                self.total += size
            self._references[id(part)] = (references + 1, size)

    def remove(self, parts: Iterable[Part]) -> None:
        """Remove a reference to each part."""
        for part in parts:
            references, size = self._references.pop(id(part))
            if references > 1:
                self._references[id(part)] = (references - 1, size)
            else:
                self.total -= size


def _measure_small(part: Part, measured: dict[int, int]) -> bool:
    """Measure a part; False if it is large."""
    try:
        measured[id(part)] = _size_of(part, _MOST_VALUES)
    except _Large:
        return False
    return True


class _Large(Exception):
    """The part has more values than may be measured at once."""


def _size_of(part: Part, most: int = sys.maxsize) -> int:
    """Return a part's size in bytes. Raises _Large if its JSON has more than `most` values."""
    match part:
        case StoredItem(item, message, result):
            messages = [each for each in (message, result) if each is not None]
            return _size_of(item, most) + sum(map(_size_of, messages))
        case Message(content=content, tokens=tokens):
            return _OBJECT_BYTES + getsizeof(str(content)) + _TOKEN_BYTES * len(tokens or ())
        case bytes():
            return len(part)
        case _:
            return _OBJECT_BYTES + size_of_json(part, most)


def size_of_json(value: Any, most: int = sys.maxsize) -> int:
    """Return an upper estimate, in bytes: objects that occur several times count each time.

    The length of the text is no estimate: an empty array takes 2 bytes there, and 64 in memory.
    Raises _Large for more than `most` values.
    """
    total, level = 0, [value]
    while level:
        # In slices, because other threads run only between the calls of `sum`.
        for first in range(0, len(level), _SLICE):
            total += sum(map(getsizeof, level[first : first + _SLICE]))
        total += sum(one.size for one in level if isinstance(one, EncodedArray))
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
