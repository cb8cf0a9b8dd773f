"""How much memory takes what is kept there: roughly, for a bound."""

from collections.abc import Iterable
from itertools import chain
from sys import getsizeof
from typing import Any

from harmony.messages import Message
from server.store.items import StoredItem

MOST_BYTES = 2**28
"""What a store in memory may weigh of each kind: responses, conversations, completions."""

_OBJECT_BYTES = 1000
"""What is held beside what a part says: a message's other fields, the keys to find it by."""

_TOKEN_BYTES = 40

Part = StoredItem | Message | dict[str, Any] | bytes


class Weights:
    """The bytes of all parts that are held; a part that several hold counts once.

    Parts are told apart by identity: hold none that is not kept until it is released.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[int, tuple[int, int]] = {}

    def hold(self, parts: Iterable[Part]) -> None:
        """Count the parts, once more for each time that they are given."""
        for part in parts:
            holders, weight = self._held.get(id(part), (0, 0))
            if not holders:
                weight = _weight(part)
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


def _weight(part: Part) -> int:
    match part:
        case StoredItem(item, message):
            return _weight(item) + (0 if message is None else _weight(message))
        case Message(content=content, tokens=tokens):
            return _OBJECT_BYTES + getsizeof(str(content)) + _TOKEN_BYTES * len(tokens or ())
        case bytes():
            return len(part)
        case _:
            return _OBJECT_BYTES + _weight_of_json(part)


def _weight_of_json(value: Any) -> int:
    """At least what the value takes: what it holds several times counts each time.

    The text says little: an empty array takes 2 bytes there, and 64 in memory.
    """
    total, level = 0, [value]
    while level:
        total += sum(map(getsizeof, level))
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list | tuple)
            for inner in (chain(outer, outer.values()) if isinstance(outer, dict) else outer)
        ]
    return total
