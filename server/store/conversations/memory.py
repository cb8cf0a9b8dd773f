"""Conversations in this process's memory."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from server.store.conversations.base import Conversation, ConversationSnapshot
from server.store.items import StoredItem
from server.store.memory_size import MOST_BYTES, MemorySizes

CAPACITY = 10_000

_Key = tuple[str, str]


class MemoryConversations:
    """Keeps up to `capacity` conversations, >= 1; the least recently used are forgotten first.

    most: bytes that their items may take, roughly; the last one is kept in any case.
    """

    def __init__(self, capacity: int = CAPACITY, most: int = MOST_BYTES) -> None:
        self._capacity = capacity
        self._most = most
        self._sizes = MemorySizes()
        self._kept: OrderedDict[_Key, ConversationSnapshot] = OrderedDict()

    async def create(self, conversation: Conversation, items: Sequence[StoredItem]) -> None:
        """Keep it, and forget another where there is no room."""
        await self._sizes.measure(items)
        key = (conversation.owner, conversation.id)
        self._kept[key] = ConversationSnapshot(conversation, tuple(items), 0)
        self._sizes.hold(items)
        self._make_room()

    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """The conversation; it counts as used."""
        read = await self.read(owner, conversation_id)
        return None if read is None else read.conversation

    async def read(self, owner: str, conversation_id: str) -> ConversationSnapshot | None:
        """The conversation and its items; it counts as used."""
        key = (owner, conversation_id)
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    async def annotate(
        self, owner: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation | None:
        """Replace the metadata."""
        read = await self.read(owner, conversation_id)
        if read is None:
            return None
        changed = replace(read.conversation, metadata=metadata)
        self._kept[(owner, conversation_id)] = replace(read, conversation=changed)
        return changed

    async def add(self, owner: str, conversation_id: str, items: Sequence[StoredItem]) -> bool:
        """Add the items."""
        await self._sizes.measure(items)
        read = await self.read(owner, conversation_id)
        if read is None:
            return False
        self._kept[(owner, conversation_id)] = replace(read, items=(*read.items, *items))
        self._sizes.hold(items)
        self._make_room()
        return True

    async def remove(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Take the item out."""
        read = await self.read(owner, conversation_id)
        left = tuple(kept for kept in read.items if kept.item["id"] != item_id) if read else ()
        if read is None or len(left) == len(read.items):
            return False
        self._kept[(owner, conversation_id)] = replace(read, items=left)
        self._sizes.release(kept for kept in read.items if kept.item["id"] == item_id)
        return True

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Forget it."""
        return self._forget((owner, conversation_id))

    def _make_room(self) -> None:
        while len(self._kept) > 1 and (
            len(self._kept) > self._capacity or self._sizes.total > self._most
        ):
            self._forget(next(iter(self._kept)))

    def _forget(self, key: _Key) -> bool:
        read = self._kept.pop(key, None)
        self._sizes.release(read.items if read else ())
        return read is not None
