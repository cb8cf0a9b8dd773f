"""Chat completions that clients asked to store, and the seam to where they are kept."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, Protocol

from server.store.items import SampledMessages
from server.store.memory_size import MOST_BYTES, MemorySizes, Part

CAPACITY = 10_000

_Key = tuple[str, str]


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
    called: Mapping[str, SampledMessages] = field(default_factory=dict)

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

    async def called(self, owner: str, call_ids: Collection[str]) -> Mapping[str, SampledMessages]:
        """What the owner's calls among `call_ids` were led up to by, by id."""
        ...


class MemoryChatCompletions:
    """Keeps up to `capacity` completions, >= 1, in this process; the oldest are forgotten first.

    most: bytes that they may take in all, roughly; the last one is kept in any case.
    """

    def __init__(self, capacity: int = CAPACITY, most: int = MOST_BYTES) -> None:
        self._capacity = capacity
        self._most = most
        self._sizes = MemorySizes()
        self._kept: OrderedDict[_Key, StoredChatCompletion] = OrderedDict()
        self._calls: dict[_Key, SampledMessages] = {}

    async def put(self, stored: StoredChatCompletion) -> None:
        """Keep it, and forget the oldest where there is no room."""
        await self._sizes.measure(_parts(stored))
        self._kept[(stored.owner, stored.id)] = stored
        self._sizes.hold(_parts(stored))
        self._calls |= {(stored.owner, name): said for name, said in stored.called.items()}
        while len(self._kept) > 1 and (
            len(self._kept) > self._capacity or self._sizes.total > self._most
        ):
            self._forget(next(iter(self._kept)))

    async def get(self, owner: str, completion_id: str) -> StoredChatCompletion | None:
        """The completion as it was last annotated."""
        return self._kept.get((owner, completion_id))

    async def list(self, owner: str, wanted: ListFilter) -> ListPage:
        """In the order in which they were put."""
        kept = [stored for (its, _), stored in self._kept.items() if its == owner]
        if wanted.order == "desc":
            kept.reverse()
        if wanted.after is not None:
            ids = [stored.id for stored in kept]
            first = ids.index(wanted.after) + 1 if wanted.after in ids else len(kept)
            kept = kept[first:]
        found = [stored.completion for stored in kept if wanted.matches(stored.completion)]
        return ListPage(found[: wanted.limit], len(found) > wanted.limit)

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> StoredChatCompletion | None:
        """Its place in the order stays."""
        stored = self._kept.get((owner, completion_id))
        if stored is None:
            return None
        changed = replace(stored, completion={**stored.completion, "metadata": dict(metadata)})
        self._sizes.hold(_parts(changed))
        self._kept[(owner, completion_id)] = changed
        self._sizes.release(_parts(stored))
        return changed

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Forget it and its calls."""
        return self._forget((owner, completion_id))

    async def called(self, owner: str, call_ids: Collection[str]) -> Mapping[str, SampledMessages]:
        """The calls of completions that are still kept."""
        keys = {name: (owner, name) for name in call_ids}
        return {name: self._calls[key] for name, key in keys.items() if key in self._calls}

    def _forget(self, key: _Key) -> bool:
        stored = self._kept.pop(key, None)
        if stored is None:
            return False
        self._sizes.release(_parts(stored))
        for call_id in stored.called:
            self._calls.pop((key[0], call_id), None)
        return True


def _parts(stored: StoredChatCompletion) -> Iterator[Part]:
    return chain((stored.completion,), stored.messages, *stored.called.values())
