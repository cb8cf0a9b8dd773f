"""The protocol for stored chat completions, and their stored form."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from server.store.items import SampledTurn, UpToCalls
from server.store.lists import ListQuery, Page

Completion = dict[str, Any]
"""The API's object, `metadata` included."""
Message = dict[str, Any]
"""A message of a request, with an `id`."""

NO_METADATA: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class StoredChatCompletion:
    """A completion that has ended.

    owner: the digest of an API key. messages: the request's. turns: the sampled messages of each
    choice that has calls, with reasoning that the completion may not show.
    """

    owner: str
    completion: Completion
    messages: tuple[Message, ...]
    turns: tuple[SampledTurn, ...] = ()

    @property
    def id(self) -> str:
        """The completion's id."""
        return str(self.completion["id"])


class ChatCompletionStore(Protocol):
    """Stores completions for their owners. Other owners do not find them.

    All methods raise StoreUnavailable.
    """

    async def put(self, stored: StoredChatCompletion) -> None:
        """Store a completion under its new id. Idempotent."""
        ...

    async def get(self, owner: str, completion_id: str) -> Completion | None:
        """Return the owner's completion; None if there is none."""
        ...

    async def messages(self, owner: str, completion_id: str) -> Sequence[Message] | None:
        """Return the messages of the owner's completion; None if there is none."""
        ...

    async def list(
        self,
        owner: str,
        query: ListQuery,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Page[Completion]:
        """Return a page of the owner's completions with this model and all of this metadata.

        It may end early: see `fitting`. `query.after` may be deleted: see `read_rows`.

        model: None for any.
        """
        ...

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> Completion | None:
        """Replace the metadata of the owner's completion; None if there is none."""
        ...

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Delete the owner's completion; False if there is none."""
        ...

    async def messages_up_to_call(self, owner: str, call_ids: Collection[str]) -> UpToCalls:
        """Return, by call id, the sampled messages up to and including the owner's call."""
        ...
