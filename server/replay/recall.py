"""What the model said before a call, for clients whose protocol has no place for it.

Chat's messages have no ids, but calls have: by a call's id the server finds the reasoning that
led to it, even where that is hidden or the client dropped it, and the ids that were sampled, so
that the next prompt repeats them and an engine's prefix cache hits.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

from harmony.messages import Message
from server.store.items import SampledMessages

CAPACITY = 2_000_000

_Key = tuple[str, str]


class Recall:
    """Keeps what was said up to each call in this process's memory, for its owner alone.

    capacity: tokens in all, >= 1; what was least recently used is forgotten first.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._size = 0
        self._said: OrderedDict[_Key, SampledMessages] = OrderedDict()

    def remember(self, owner: str, call_id: str, said: Sequence[Message]) -> None:
        """Keep a turn's messages, of which the last is the call, under the call's new id."""
        self._said[(owner, call_id)] = kept = tuple(said)
        self._size += _size(kept)
        while self._size > self._capacity:
            _, forgotten = self._said.popitem(last=False)
            self._size -= _size(forgotten)

    def find(self, owner: str, call_ids: Collection[str]) -> Mapping[str, SampledMessages]:
        """What the owner's calls among `call_ids` were led up to by, by id."""
        found: dict[str, SampledMessages] = {}
        for call_id in call_ids:
            if (said := self._said.get((owner, call_id))) is not None:
                self._said.move_to_end((owner, call_id))
                found[call_id] = said
        return found


def _size(said: SampledMessages) -> int:
    return 1 + sum(len(message.tokens or ()) + len(str(message.content)) // 4 for message in said)
