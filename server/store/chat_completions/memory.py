"""Stored chat completions in this process's memory."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from server.store.chat_completions.base import ListFilter, ListPage, StoredChatCompletion
from server.store.items import SampledMessages
from server.store.memory_size import MOST_BYTES, MemorySizes, Part

CAPACITY = 10_000

_Key = tuple[str, str]


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
        self._calls |= {
            (stored.owner, name): said for name, said in stored.messages_by_call_id.items()
        }
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

    async def messages_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, SampledMessages]:
        """The calls of completions that are still kept."""
        keys = {name: (owner, name) for name in call_ids}
        return {name: self._calls[key] for name, key in keys.items() if key in self._calls}

    def _forget(self, key: _Key) -> bool:
        stored = self._kept.pop(key, None)
        if stored is None:
            return False
        self._sizes.release(_parts(stored))
        for call_id in stored.messages_by_call_id:
            self._calls.pop((key[0], call_id), None)
        return True


def _parts(stored: StoredChatCompletion) -> Iterator[Part]:
    return chain((stored.completion,), stored.messages, *stored.messages_by_call_id.values())
