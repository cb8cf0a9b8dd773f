"""The messages that were sampled before each call, for an API that cannot carry them.

Chat's messages have no ids, but calls do. By a call's id the server finds the reasoning before the
call, even where it is hidden or the client dropped it. It also finds the sampled token ids: the
next prompt repeats them, so that the engine's prefix cache is used.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

from harmony.messages import Message
from server.store.items import SampledMessages

CAPACITY = 2_000_000

_Key = tuple[str, str]


class Recall:
    """The sampled messages up to each call, in this process's memory. Owners see only their own.

    capacity: tokens in all, >= 1. The least recently used turns are dropped first.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._size = 0
        self._turns: OrderedDict[_Key, SampledMessages] = OrderedDict()

    def remember(self, owner: str, call_id: str, messages: Sequence[Message]) -> None:
        """Store the messages of a turn, the last of which is the call, under a new call id."""
        self._turns[(owner, call_id)] = turn = tuple(messages)
        self._size += _size(turn)
        while self._size > self._capacity:
            _, dropped = self._turns.popitem(last=False)
            self._size -= _size(dropped)

    def find(self, owner: str, call_ids: Collection[str]) -> Mapping[str, SampledMessages]:
        """The messages up to each of the owner's calls among `call_ids`, by call id."""
        found: dict[str, SampledMessages] = {}
        for call_id in call_ids:
            if (turn := self._turns.get((owner, call_id))) is not None:
                self._turns.move_to_end((owner, call_id))
                found[call_id] = turn
        return found


def _size(turn: SampledMessages) -> int:
    return 1 + sum(len(message.tokens or ()) + len(str(message.content)) // 4 for message in turn)
