"""The protocol for conversations, and their stored form."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from server.store.items import Item, StoredItem, ToolState
from server.store.lists import ListPage, ListQuery, Page


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its items.

    owner: the digest of an API key. created_at: Unix seconds. start_date: the date in its system
    messages, `YYYY-MM-DD`.
    """

    owner: str
    id: str
    created_at: int
    start_date: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_api(self) -> dict[str, Any]:
        """Return the API's object."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """A conversation with its items as they were read, and the position of the last one.

    tool_state: that of the response that was added last.
    """

    conversation: Conversation
    items: tuple[StoredItem, ...]
    position: int
    tool_state: ToolState = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConversationSize:
    """How many items a conversation has, and how many bytes they take in the store.

    In memory they take some ten times the bytes of their JSON.
    """

    items: int
    bytes: int


class ConversationStore(Protocol):
    """Stores conversations for their owners. All methods raise StoreUnavailable.

    The items of one call stay together: items of concurrent calls come before or after them.
    What is removed is also removed from the history of the responses that had read it.
    """

    async def create(self, conversation: Conversation, items: Sequence[StoredItem]) -> None:
        """Store a new conversation with its first items."""
        ...

    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """Return the owner's conversation; None if there is none."""
        ...

    async def read(self, owner: str, conversation_id: str) -> ConversationSnapshot | None:
        """Return the owner's conversation with its items, in order; None if there is none."""
        ...

    async def size(self, owner: str, conversation_id: str) -> ConversationSize | None:
        """Return the size of the owner's conversation; None if there is none."""
        ...

    async def find(
        self, owner: str, conversation_id: str, ids: Collection[str], call_ids: Collection[str]
    ) -> Sequence[StoredItem] | None:
        """Return those items of the owner's conversation that have one of the ids or call ids.

        None if there is no conversation.
        """
        ...

    async def page_of_items(
        self, owner: str, conversation_id: str, query: ListQuery
    ) -> Page[Item] | None:
        """Return a page of the items of the owner's conversation; None if there is none.

        It may end early: see `fitting`. `query.after` may be deleted: see `page_in_memory`.
        """
        ...

    async def item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        """Return an item of the owner's conversation; None if it is not in it."""
        ...

    async def list(self, owner: str, query: ListQuery) -> ListPage:
        """Return a page of the owner's conversations.

        `query.after` may be deleted: see `read_rows`.
        """
        ...

    async def annotate(
        self, owner: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation | None:
        """Replace the metadata of the owner's conversation; None if there is none."""
        ...

    async def add(self, owner: str, conversation_id: str, items: Sequence[StoredItem]) -> bool:
        """Append items to the owner's conversation; False if there is none."""
        ...

    async def remove(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Remove an item from the owner's conversation; False if it is not in it."""
        ...

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Delete the owner's conversation and its items; False if there is none."""
        ...
