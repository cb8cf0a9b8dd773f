"""An index of stored items in this process's memory."""

from collections.abc import Iterable

from server.store.items import StoredItem

_Key = tuple[str, str]


class ItemIndex:
    """Items by owner and id. Several responses or conversations may have items with one id."""

    def __init__(self) -> None:
        self._items: dict[_Key, list[StoredItem]] = {}

    def add(self, owner: str, added: Iterable[StoredItem]) -> None:
        """Add items of the owner."""
        for stored in added:
            self._items.setdefault((owner, stored.item["id"]), []).append(stored)

    def remove(self, owner: str, removed: Iterable[StoredItem]) -> None:
        """Remove items that were added, each once."""
        for stored in removed:
            key = (owner, stored.item["id"])
            same = self._items[key]
            del same[next(place for place, other in enumerate(same) if other is stored)]
            if not same:
                del self._items[key]

    def earliest(self, owner: str, ids: Iterable[str]) -> dict[str, StoredItem]:
        """Return the owner's items among `ids`, by id; of several with one id the earliest."""
        found = ((item_id, self._items.get((owner, item_id))) for item_id in ids)
        return {item_id: same[0] for item_id, same in found if same}
