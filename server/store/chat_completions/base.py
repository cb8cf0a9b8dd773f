"""Chat completions that clients asked to store, and the seam to where they are kept."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from server.store.items import SampledMessages


@dataclass(frozen=True, slots=True)
class StoredChatCompletion:
    """A completion that has ended.

    owner: the principal's id. completion: the API's object, `metadata` included. messages: the
    request's, each with an `id`. called: what the model said up to each call, by the call's id;
    it holds what the completion may not show.
    """

    owner: str
    completion: dict[str, Any]
    messages: tuple[dict[str, Any], ...]
    messages_by_call_id: Mapping[str, SampledMessages] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The completion's own id."""
        return str(self.completion["id"])


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which completions are listed: of a model, with all of some metadata, after an id.

    limit: >= 1. order: by time of creation.
    """

    limit: int
    order: Literal["asc", "desc"] = "asc"
    after: str | None = None
    model: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def matches(self, completion: Mapping[str, Any]) -> bool:
        """Whether a completion is one of them, wherever it stands."""
        given = completion["metadata"]
        return self.model in (None, completion["model"]) and all(
            given.get(key) == value for key, value in self.metadata.items()
        )


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of completions, and whether there are more after it."""

    completions: Sequence[dict[str, Any]]
    has_more: bool


class ChatCompletionStore(Protocol):
    """Keeps completions for their owners; nobody else's request finds them.

    All raise StoreUnavailable.
    """

    async def put(self, stored: StoredChatCompletion) -> None:
        """Keep a completion under its new id."""
        ...

    async def get(self, owner: str, completion_id: str) -> StoredChatCompletion | None:
        """The owner's completion; None where there is none."""
        ...

    async def list(self, owner: str, wanted: ListFilter) -> ListPage:
        """The owner's completions; none after an id that is not there."""
        ...

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> StoredChatCompletion | None:
        """Give the owner's completion other metadata; None where there is none."""
        ...

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Forget the owner's completion; False where there is none."""
        ...

    async def messages_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, SampledMessages]:
        """What the owner's calls among `call_ids` were led up to by, by id."""
        ...
