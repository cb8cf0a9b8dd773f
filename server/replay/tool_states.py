"""The states of hosted tools after answers whose items the client sends back.

A client that continues no stored response sends items only. By the id of an item the server finds
the state that the tools had after the answer, such as the pages that the model can still cite.
"""

import json
from collections.abc import Iterable

from cachetools import TTLCache

from server.store.items import NO_STATE, ToolState

CAPACITY = 64_000_000
SECONDS = 3600.0


class RecalledStates:
    """States in this process's memory. Owners see only their own.

    capacity: characters in all, as JSON; the least recently used states are dropped first.
    seconds: how long a state is found.
    """

    def __init__(self, capacity: int = CAPACITY, seconds: float = SECONDS) -> None:
        self._states: TTLCache[tuple[str, str], tuple[int, ToolState]] = TTLCache(
            capacity, seconds, getsizeof=lambda sized: sized[0]
        )

    def remember(self, owner: str, item_id: str, state: ToolState) -> None:
        """Store the state after the answer whose last call has the item. One that is larger than
        the capacity is not stored."""
        size = len(json.dumps(state))
        if size <= self._states.maxsize:
            self._states[(owner, item_id)] = size, state

    def find(self, owner: str, item_ids: Iterable[str]) -> ToolState:
        """The state that belongs to the first of the items that has one; empty if none has."""
        for item_id in item_ids:
            if (found := self._states.get((owner, item_id))) is not None:
                return found[1]
        return NO_STATE
