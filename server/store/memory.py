"""A store in this process's memory: the least recently used responses are forgotten first."""

from collections import OrderedDict
from collections.abc import Collection, Mapping

from server.store.base import StoredItem, StoredResponse

CAPACITY = 2_000

_Key = tuple[str, str]


class MemoryStore:
    """Keeps up to `capacity` responses, >= 1; they are gone when the process ends."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._responses: OrderedDict[_Key, StoredResponse] = OrderedDict()
        self._items: dict[_Key, StoredItem] = {}

    async def put(self, stored: StoredResponse) -> None:
        """Keep it, and forget the least recently used one where there is no room."""
        key = (stored.owner, stored.id)
        self._forget(key)
        self._responses[key] = stored
        for kept in stored.output:
            self._items[(stored.owner, kept.item["id"])] = kept
        for kept in stored.input:
            # A client may send an item back changed: its first form is the one that has the id.
            self._items.setdefault((stored.owner, kept.item["id"]), kept)
        if len(self._responses) > self._capacity:
            self._forget(next(iter(self._responses)))

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """The owner's response; it counts as used."""
        key = (owner, response_id)
        if key in self._responses:
            self._responses.move_to_end(key)
        return self._responses.get(key)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response and its items."""
        return self._forget((owner, response_id))

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """The owner's items among `ids`."""
        keys = ((owner, item_id) for item_id in ids)
        return {key[1]: self._items[key] for key in keys if key in self._items}

    def _forget(self, key: _Key) -> bool:
        stored = self._responses.pop(key, None)
        if stored is None:
            return False
        for kept in (*stored.input, *stored.output):
            item_key = (stored.owner, kept.item["id"])
            if self._items.get(item_key) is kept:
                del self._items[item_key]
        return True
