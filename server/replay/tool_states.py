"""The states of hosted tools after answers whose items or calls the client sends back.

A client that continues no stored response sends items only, or the messages of Chat. By the id of
an item, or of a call, the server finds the state that the tools had after the answer, such as the
pages that the model can still cite.
"""

from collections.abc import Iterable

import orjson

from server.replay.recent import SECONDS, Recent
from server.store.items import NO_STATE, ToolState

CAPACITY = 64_000_000


class RecalledStates:
    """States in this process's memory. Owners see only their own.

    capacity: bytes in all, as JSON; the least recently used states are dropped first.
    seconds: how long a state is found.
    """

    def __init__(self, capacity: int = CAPACITY, seconds: float = SECONDS) -> None:
        self._states = Recent[ToolState](capacity, seconds)

    def remember(self, owner: str, key: str, state: ToolState) -> None:
        """Store the state after an answer; one that is larger than the capacity is not stored.

        key: the id of the answer's last item of a tool that can be cited, or of its last call on
        Chat.
        """
        self._states.remember(owner, key, state, len(orjson.dumps(state)))

    def find(self, owner: str, keys: Iterable[str]) -> ToolState:
        """The state that belongs to the first of the ids that has one; empty if none has."""
        for key in keys:
            if (found := self._states.find(owner, key)) is not None:
                return found
        return NO_STATE
