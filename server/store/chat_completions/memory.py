"""Stored chat completions in this process's memory."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from server.store.chat_completions.base import (
    NO_METADATA,
    Completion,
    Message,
    StoredChatCompletion,
)
from server.store.items import SampledTurn, UpToCalls
from server.store.lists import ListQuery, Page, fitting, page_in_memory
from server.store.memory_size import CAPACITY, MOST_BYTES, MemorySizes, Part

_Key = tuple[str, str]


class MemoryChatCompletions:
    """Stores up to `capacity` completions, >= 1; the oldest are evicted first.

    most: the approximate limit of their size, in bytes. The newest one is never evicted.
    """

    def __init__(self, capacity: int = CAPACITY, most: int = MOST_BYTES) -> None:
        self._capacity = capacity
        self._most = most
        self._sizes = MemorySizes()
        self._completions: OrderedDict[_Key, StoredChatCompletion] = OrderedDict()
        self._calls: dict[_Key, SampledTurn] = {}

    async def put(self, stored: StoredChatCompletion) -> None:
        """Store it, and evict the oldest beyond the limits."""
        measured = await self._sizes.measure(_parts(stored))
        self._completions[(stored.owner, stored.id)] = stored
        self._sizes.add(_parts(stored), measured)
        self._calls |= {
            (stored.owner, call_id): turn for turn in stored.turns for call_id in turn.ends
        }
        while len(self._completions) > 1 and (
            len(self._completions) > self._capacity or self._sizes.total > self._most
        ):
            self._remove(next(iter(self._completions)))

    async def get(self, owner: str, completion_id: str) -> Completion | None:
        """Look it up."""
        stored = self._completions.get((owner, completion_id))
        return None if stored is None else stored.completion

    async def messages(self, owner: str, completion_id: str) -> Sequence[Message] | None:
        """Look it up."""
        stored = self._completions.get((owner, completion_id))
        return None if stored is None else stored.messages

    async def list(
        self,
        owner: str,
        query: ListQuery,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Page[Completion]:
        """List in the order of insertion."""

        def matches(completion: Completion) -> bool:
            return model in (None, completion["model"]) and (
                metadata.items() <= completion["metadata"].items()
            )

        listed = [stored.completion for (of, _), stored in self._completions.items() if of == owner]
        page = page_in_memory(listed, query, lambda completion: str(completion["id"]), matches)
        return fitting(page, self._sizes.of)

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> Completion | None:
        """Replace the metadata; the order stays."""
        stored = self._completions.get((owner, completion_id))
        if stored is None:
            return None
        changed = replace(stored, completion={**stored.completion, "metadata": dict(metadata)})
        self._sizes.add(_parts(changed))
        self._completions[(owner, completion_id)] = changed
        self._sizes.remove(_parts(stored))
        return changed.completion

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Delete it and its calls."""
        return self._remove((owner, completion_id))

    async def messages_up_to_call(self, owner: str, call_ids: Collection[str]) -> UpToCalls:
        """Look up the calls."""
        keys = {name: (owner, name) for name in call_ids}
        found = {name: self._calls[key] for name, key in keys.items() if key in self._calls}
        return UpToCalls(found)

    def _remove(self, key: _Key) -> bool:
        stored = self._completions.pop(key, None)
        if stored is None:
            return False
        self._sizes.remove(_parts(stored))
        for call_id in chain.from_iterable(turn.ends for turn in stored.turns):
            self._calls.pop((key[0], call_id), None)
        return True


def _parts(stored: StoredChatCompletion) -> Iterator[Part]:
    return chain((stored.completion,), stored.messages, *(turn.messages for turn in stored.turns))
