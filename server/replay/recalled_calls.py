"""Calls of hosted tools, with their results, of answers that are not stored.

A client that keeps its answers itself sends their items back, but the items of searches have no
results, and those of code only where the client asks for them. By the id of an item the server
finds the call that was sampled and the result that the model read.
"""

from collections.abc import Iterable

from harmony.messages import Message
from server.replay.hosted_items import compared
from server.replay.recent import SECONDS, Recent
from server.store.items import StoredItem

CAPACITY = 16_000_000
"""Characters. They are thousands of results, which clients need while they go on with a turn."""

_TOKEN_CHARACTERS = 40
"""What a token id takes in memory, in characters of text."""


class RecalledCalls:
    """Calls in this process's memory. Owners see only their own.

    capacity: characters in all; the least recently used calls are dropped first. seconds: how long
    a call is found.
    """

    def __init__(self, capacity: int = CAPACITY, seconds: float = SECONDS) -> None:
        self._calls = Recent[StoredItem](capacity, seconds)

    def remember(self, owner: str, calls: Iterable[StoredItem]) -> None:
        """Store calls, by the ids of their items, as far as the items are compared later."""
        for call in calls:
            item = compared(call.item)
            texts = [str(value) for value in item.values()]
            size = sum(map(len, texts)) + _size(call.message) + _size(call.result)
            kept = StoredItem(item, call.message, call.result)
            self._calls.remember(owner, item["id"], kept, size)

    def find(self, owner: str, item_ids: Iterable[str]) -> dict[str, StoredItem]:
        """The calls that there are, by the ids of their items."""
        found = ((item_id, self._calls.find(owner, item_id)) for item_id in item_ids)
        return {item_id: call for item_id, call in found if call is not None}


def _size(message: Message | None) -> int:
    if message is None:
        return 0
    return len(str(message.content)) + _TOKEN_CHARACTERS * len(message.tokens or ())
