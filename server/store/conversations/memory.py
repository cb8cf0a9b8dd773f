"""Conversations in this process's memory."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from server.store.conversations.base import Conversation, ConversationSize, ConversationSnapshot
from server.store.item_index import ItemIndex
from server.store.items import Item, StoredItem, ToolState
from server.store.lists import ListEntry, ListPage, ListQuery, Page, page_of, page_of_items
from server.store.memory_size import CAPACITY, MOST_BYTES, MemorySizes

_Key = tuple[str, str]


class MemoryConversations:
    """Stores up to `capacity` conversations, >= 1; the least recently used are evicted first.

    most: the approximate limit of their items' size, in bytes. The last one is never evicted.
    index: their items.
    """

    def __init__(self, capacity: int = CAPACITY, most: int = MOST_BYTES) -> None:
        self._capacity = capacity
        self._most = most
        self._sizes = MemorySizes()
        self._conversations: OrderedDict[_Key, ConversationSnapshot] = OrderedDict()
        self.index = ItemIndex()

    async def create(self, conversation: Conversation, items: Sequence[StoredItem]) -> None:
        """Store it, and evict others beyond the limits."""
        measured = await self._sizes.measure(items)
        key = (conversation.owner, conversation.id)
        self._conversations[key] = ConversationSnapshot(conversation, tuple(items), 0)
        self._sizes.add(items, measured)
        self.index.add(conversation.owner, items)
        self._make_room()

    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """Look it up; this counts as use."""
        snapshot = await self.read(owner, conversation_id)
        return None if snapshot is None else snapshot.conversation

    async def read(self, owner: str, conversation_id: str) -> ConversationSnapshot | None:
        """Look it up with its items; this counts as use."""
        key = (owner, conversation_id)
        if key in self._conversations:
            self._conversations.move_to_end(key)
        return self._conversations.get(key)

    async def size(self, owner: str, conversation_id: str) -> ConversationSize | None:
        """Add up the sizes; this counts as use."""
        snapshot = await self.read(owner, conversation_id)
        if snapshot is None:
            return None
        return ConversationSize(len(snapshot.items), sum(map(self._sizes.of, snapshot.items)))

    async def find(
        self, owner: str, conversation_id: str, ids: Collection[str], call_ids: Collection[str]
    ) -> Sequence[StoredItem] | None:
        """Look at each item; this counts as use."""
        snapshot = await self.read(owner, conversation_id)
        if snapshot is None:
            return None
        items, wanted, calls = snapshot.items, set(ids), set(call_ids)
        return [
            stored
            for stored in items
            if stored.item["id"] in wanted or stored.item.get("call_id") in calls
        ]

    async def page_of_items(
        self, owner: str, conversation_id: str, query: ListQuery
    ) -> Page[Item] | None:
        """Look up the items; this counts as use."""
        snapshot = await self.read(owner, conversation_id)
        return None if snapshot is None else page_of_items(snapshot.items, query, self._sizes.of)

    async def item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        """Look it up; this counts as use."""
        snapshot = await self.read(owner, conversation_id)
        found = (stored.item for stored in snapshot.items) if snapshot else ()
        return next((item for item in found if item["id"] == item_id), None)

    async def list(self, owner: str, query: ListQuery) -> ListPage:
        """List by time of creation; this does not count as use."""
        return await page_of(
            [
                (snapshot.conversation.created_at, _entry(snapshot))
                for (of, _), snapshot in self._conversations.items()
                if of == owner
            ],
            query,
        )

    async def annotate(
        self, owner: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation | None:
        """Replace the metadata."""
        snapshot = await self.read(owner, conversation_id)
        if snapshot is None:
            return None
        changed = replace(snapshot.conversation, metadata=metadata)
        self._conversations[(owner, conversation_id)] = replace(snapshot, conversation=changed)
        return changed

    async def add(
        self,
        owner: str,
        conversation_id: str,
        items: Sequence[StoredItem],
        tool_state: ToolState | None = None,
    ) -> bool:
        """Append the items. tool_state: replaces the conversation's, unless it is None."""
        measured = await self._sizes.measure(items)
        snapshot = await self.read(owner, conversation_id)
        if snapshot is None:
            return False
        self._conversations[(owner, conversation_id)] = replace(
            snapshot,
            items=(*snapshot.items, *items),
            tool_state=snapshot.tool_state if tool_state is None else tool_state,
        )
        self._sizes.add(items, measured)
        self.index.add(owner, items)
        self._make_room()
        return True

    async def remove(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Remove the item."""
        snapshot = await self.read(owner, conversation_id)
        if snapshot is None:
            return False
        removed = [stored for stored in snapshot.items if stored.item["id"] == item_id]
        if not removed:
            return False
        rest = tuple(stored for stored in snapshot.items if stored.item["id"] != item_id)
        self._conversations[(owner, conversation_id)] = replace(snapshot, items=rest)
        self._sizes.remove(removed)
        self.index.remove(owner, removed)
        return True

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Delete it."""
        return self._remove((owner, conversation_id))

    def _make_room(self) -> None:
        while len(self._conversations) > 1 and (
            len(self._conversations) > self._capacity or self._sizes.total > self._most
        ):
            self._remove(next(iter(self._conversations)))

    def _remove(self, key: _Key) -> bool:
        snapshot = self._conversations.pop(key, None)
        if snapshot is None:
            return False
        self._sizes.remove(snapshot.items)
        self.index.remove(key[0], snapshot.items)
        return True


def _entry(snapshot: ConversationSnapshot) -> ListEntry:
    first = snapshot.items[0].item if snapshot.items else None
    return ListEntry(snapshot.conversation.to_api(), first)
