"""The messages that were sampled before each call, for an API that cannot carry them.

Chat's messages have no ids, but calls do. By a call's id the server finds the reasoning before the
call, even where it is hidden or the client dropped it. It also finds the sampled token ids: the
next prompt repeats them, so that the engine's prefix cache is used.
"""

from collections import OrderedDict
from collections.abc import Collection

from server.store.items import SampledMessages, SampledTurn, UpToCalls

CAPACITY = 2_000_000

_Key = tuple[str, str]


class Recall:
    """The sampled messages up to each call, in this process's memory. Owners see only their own.

    capacity: tokens in all, >= 1. The least recently used turns are dropped first.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._size = 0
        self._turns: OrderedDict[_Key, SampledTurn] = OrderedDict()
        self._keys: dict[_Key, _Key] = {}  # of the turn of each call

    def remember(self, owner: str, turn: SampledTurn) -> None:
        """Store a turn, whose calls have new ids."""
        key = (owner, next(iter(turn.ends)))
        self._turns[key] = turn
        self._keys |= {(owner, call_id): key for call_id in turn.ends}
        self._size += _size(turn.messages)
        while self._size > self._capacity:
            (of, _), dropped = self._turns.popitem(last=False)
            self._size -= _size(dropped.messages)
            for call_id in dropped.ends:
                del self._keys[(of, call_id)]

    def find(self, owner: str, call_ids: Collection[str]) -> UpToCalls:
        """The messages up to each of the owner's calls among `call_ids`, by call id."""
        found: dict[str, SampledTurn] = {}
        for call_id in call_ids:
            if (key := self._keys.get((owner, call_id))) is not None:
                self._turns.move_to_end(key)
                found[call_id] = self._turns[key]
        return UpToCalls(found)


def _size(turn: SampledMessages) -> int:
    return 1 + sum(len(message.tokens or ()) + len(str(message.content)) // 4 for message in turn)
