"""Conversations that clients keep here, and the seam to where they are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from server.store.items import StoredItem


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its items.

    owner: the principal's id. created_at: Unix seconds. start_date: what system messages name,
    `YYYY-MM-DD`.
    """

    owner: str
    id: str
    created_at: int
    start_date: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_api(self) -> dict[str, Any]:
        """The API's object."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """What a conversation holds when it is read: its items, and the place of the last one."""

    conversation: Conversation
    items: tuple[StoredItem, ...]
    position: int


class ConversationStore(Protocol):
    """Keeps conversations for their owners. All methods raise StoreUnavailable.

    Who adds items adds them together: no other's come between them.
    """

    async def create(self, conversation: Conversation, items: Sequence[StoredItem]) -> None:
        """Keep a new conversation."""
        ...

    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """The owner's conversation; None where there is none."""
        ...

    async def read(self, owner: str, conversation_id: str) -> ConversationSnapshot | None:
        """The owner's conversation with its items, in order; None where there is none."""
        ...

    async def annotate(
        self, owner: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation | None:
        """Give the owner's conversation other metadata; None where there is none."""
        ...

    async def add(self, owner: str, conversation_id: str, items: Sequence[StoredItem]) -> bool:
        """Add items at the end of the owner's conversation; False where there is none."""
        ...

    async def remove(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Take an item out of the owner's conversation; False where it is not in it."""
        ...

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Forget the owner's conversation and its items; False where there is none."""
        ...
