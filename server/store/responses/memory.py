"""A store in this process's memory, with limits on count and size."""

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from server import threads
from server.store import codec
from server.store.approvals.memory import MemoryAnsweredRequests
from server.store.change_signal import ChangeSignal, ChangeSignals
from server.store.chat_completions.memory import MemoryChatCompletions
from server.store.containers.memory import MemoryContainers
from server.store.conversations.memory import MemoryConversations
from server.store.errors import RunLost
from server.store.files.memory import MemoryFiles
from server.store.item_index import ItemIndex
from server.store.items import Item, StoredItem, turns_up_to_calls
from server.store.lists import ListEntry, ListPage, ListQuery, Page, page_of, page_of_items
from server.store.memory_size import CAPACITY, MOST_BYTES, Measured, MemorySizes, Part
from server.store.responses.base import CANCELS, Event, Ledger, StoredResponse

_BATCH = 1000
_MOST_SMALL = 500  # items that are looked through in a tenth of a millisecond

_Key = tuple[str, str]


@dataclass(slots=True)
class _Run:
    """A response that is being made: its owner, and its events so far."""

    owner: str
    events: list[Event] = field(default_factory=list)
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class _Origin:
    """The conversation that the first response of a chain belongs to, and had read.

    own: how many items at the end of a history are the chain's own. Those before are of the
    conversation.
    """

    conversation_id: str
    own: int = 0


class MemoryStore:
    """Stores up to `capacity` responses, >= 1, until the process ends.

    The least recently used ones are evicted first. most: the approximate limit of their size, in
    bytes. Neither the newest one is evicted nor one that is being made. Both limits hold for each
    kind: responses, conversations and chat completions.
    """

    sealing_key = None
    now = staticmethod(time.time)

    def __init__(self, capacity: int = CAPACITY, most: int = MOST_BYTES) -> None:
        self.chat_completions = MemoryChatCompletions(capacity, most)
        self.conversations = MemoryConversations(capacity, most)
        self.files = MemoryFiles()
        self.containers = MemoryContainers()
        self.approvals = MemoryAnsweredRequests()
        self._capacity = capacity
        self._most = most
        self._sizes = MemorySizes()
        self._responses: OrderedDict[_Key, StoredResponse] = OrderedDict()
        self._origins: dict[_Key, _Origin] = {}
        self._inputs = ItemIndex()
        self._outputs = ItemIndex()
        self._turns: dict[_Key, Sequence[StoredItem]] = {}
        self._ledgers: dict[_Key, Sequence[bytes]] = {}
        self._runs: dict[str, _Run] = {}
        self._signals = ChangeSignals()

    async def start(self) -> None:
        """Does nothing."""

    async def stop(self) -> None:
        """Does nothing."""

    async def check(self) -> None:
        """Does nothing: memory is always available."""

    async def begin(self, stored: StoredResponse) -> None:
        """Store it, with an empty ledger, and evict others beyond the limits."""
        self._insert(stored, await self._sizes.measure(_parts(stored)))
        self._runs[stored.id] = _Run(stored.owner)
        self._make_room((stored.owner, stored.id))

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        """Replace the ledger from the first event's number on."""
        self._run(response_id).events[events[0]["sequence_number"] :] = events
        self._signals.notify(response_id)

    async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Store the response, unless it was deleted while it was made."""
        ledger = await _packed(events)
        measured = await self._sizes.measure(_parts(stored))
        key = (stored.owner, stored.id)
        earlier = self._responses.get(key)
        if stored.id not in self._runs and earlier and earlier.response == stored.response:
            return
        self._run(stored.id)
        # First: who sees that the response has ended may continue the conversation at once.
        if stored.conversation_id and stored.conversation_items:
            await self.conversations.add(
                stored.owner,
                stored.conversation_id,
                stored.conversation_items,
                stored.tool_state,
            )
        del self._runs[stored.id]
        if key in self._responses:
            self._insert(stored, measured)
            self._ledgers[key] = ledger
            self._sizes.add(ledger)
            self._make_room(key)
        self._signals.notify(stored.id)

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Look it up, with what its conversation still has of its history; this counts as use."""
        stored = self._used(owner, response_id)
        origin = self._origins.get((owner, response_id))
        if stored is None or origin is None:
            return stored
        count = len(stored.history) - origin.own
        conversation = await self.conversations.read(owner, origin.conversation_id)
        current = conversation.items if conversation else ()
        find = partial(_still_in, current, stored.history[:count])
        there = await threads.run(find, threads.counted(count + len(current), _MOST_SMALL))
        return replace(stored, history=(*there, *stored.history[count:]))

    async def input_items(
        self, owner: str, response_id: str, query: ListQuery
    ) -> Page[Item] | None:
        """Look up the items."""
        stored = await self.get(owner, response_id)
        # It may be deleted while its long history is looked through, and then has no sizes.
        if stored is None or (owner, response_id) not in self._responses:
            return None
        return page_of_items((*stored.history, *stored.input), query, self._sizes.of)

    async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
        """Look up the API's object."""
        stored = self._used(owner, response_id)
        return None if stored is None else stored.response

    async def list(self, owner: str, query: ListQuery) -> ListPage:
        """List by time of creation; this does not count as use."""
        mine = [stored for (of, _), stored in self._responses.items() if of == owner]
        continued = {
            stored.response.get("previous_response_id") for stored in mine if not stored.detached
        }
        return await page_of(
            [
                (stored.response["created_at"], _entry(stored))
                for stored in mine
                if stored.id not in continued and stored.conversation_id is None
            ],
            query,
        )

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        """Read the events of a run, or unpack those of an ended response."""
        key = (owner, response_id)
        if key not in self._responses:
            return None
        if run := self._runs.get(response_id):
            events = tuple(run.events[start : None if most is None else start + most])
            more = start + len(events) < len(run.events)
            return Ledger(events, ended=False, more=more)
        packed = self._ledgers[key]
        first = start // _BATCH
        last = len(packed) if most is None else (start + most - 1) // _BATCH + 1
        unpacked = await codec.unpack(packed[first:last])
        more = last < len(packed)
        return Ledger(tuple(unpacked[start - first * _BATCH :]), ended=not more, more=more)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Delete the response and its items, and cancel its run."""
        found = self._remove((owner, response_id))
        if found:
            await self.cancel(response_id)
        return found

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """Look up the items."""
        indices = (self.conversations.index, self._inputs, self._outputs)
        return dict(chain.from_iterable(each.earliest(owner, ids).items() for each in indices))

    async def turns_up_to_calls(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, Sequence[StoredItem]]:
        """Look up the turns."""
        keys = ((owner, call_id) for call_id in call_ids)
        return {key[1]: self._turns[key] for key in keys if key in self._turns}

    async def cancel(self, response_id: str) -> None:
        """Mark the run, and notify."""
        if run := self._runs.get(response_id):
            run.cancelled = True
            self._signals.notify(CANCELS)

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        """Return the marked runs among `running`."""
        return frozenset(
            name for name in running if (run := self._runs.get(name)) and run.cancelled
        )

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[str]:
        """Return nothing: no other gateway shares this memory."""
        return ()

    async def take_over_from_ended(self) -> Sequence[str]:
        """Return nothing: no other gateway shares this memory."""
        return ()

    async def taken_over(self, response_id: str) -> StoredResponse:
        """Look up a response that is being made."""
        return self._responses[(self._runs[response_id].owner, response_id)]

    async def cancelled(self) -> frozenset[str]:
        """Return the marked runs."""
        return frozenset(name for name, run in self._runs.items() if run.cancelled)

    async def sweep(self, age: float) -> int:
        """Delete nothing: the capacity limits what is stored."""
        return 0

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """Return a signal of this process."""
        return self._signals.listen(topic)

    def _run(self, response_id: str) -> _Run:
        if response_id not in self._runs:
            raise RunLost(response_id)
        return self._runs[response_id]

    def _used(self, owner: str, response_id: str) -> StoredResponse | None:
        key = (owner, response_id)
        if key in self._responses:
            self._responses.move_to_end(key)
        return self._responses.get(key)

    def _origin_of(self, stored: StoredResponse) -> _Origin | None:
        """The origin of a new response's chain; None if it begins outside of a conversation."""
        if stored.conversation_id is not None:
            return _Origin(stored.conversation_id)
        key = (stored.owner, stored.response.get("previous_response_id") or "")
        if stored.detached or (origin := self._origins.get(key)) is None:
            return None
        previous = self._responses[key]
        return replace(origin, own=origin.own + len(previous.input) + len(previous.output))

    def _insert(self, stored: StoredResponse, measured: Measured) -> None:
        key = (stored.owner, stored.id)
        origin = self._origins.get(key) or self._origin_of(stored)
        stored = replace(stored, history=()) if stored.detached else stored
        # Before the earlier one is removed: parts that both have need not be measured again.
        self._sizes.add(_parts(stored), measured)
        self._remove(key)
        self._responses[key] = stored
        if origin is not None:
            self._origins[key] = origin
        for call_id, turn in turns_up_to_calls(stored.output):
            self._turns[(stored.owner, call_id)] = turn
        self._inputs.add(stored.owner, stored.input)
        self._outputs.add(stored.owner, stored.output)

    def _make_room(self, newest: _Key) -> None:
        while len(self._responses) > self._capacity or self._sizes.total > self._most:
            others = (key for key in self._responses if key != newest and key[1] not in self._runs)
            oldest = next(others, None)
            if oldest is None:  # the others are being made; their number is limited elsewhere
                return
            self._remove(oldest)

    def _remove(self, key: _Key) -> bool:
        stored = self._responses.pop(key, None)
        if stored is None:
            return False
        self._sizes.remove(_parts(stored))
        self._origins.pop(key, None)
        if (ledger := self._ledgers.pop(key, None)) is not None:
            self._sizes.remove(ledger)
        for output in stored.output:
            self._turns.pop((stored.owner, output.item.get("call_id", "")), None)
        self._inputs.remove(stored.owner, stored.input)
        self._outputs.remove(stored.owner, stored.output)
        return True


async def _packed(events: Sequence[Event]) -> list[bytes]:
    """Compress all events of a response, in batches that can be read separately."""
    return [
        await codec.pack(events[first : first + _BATCH]) for first in range(0, len(events), _BATCH)
    ]


def _still_in(current: Sequence[StoredItem], read: Sequence[StoredItem]) -> tuple[StoredItem, ...]:
    """Those of the items that were read which the conversation still has; it shares them."""
    there = set(map(id, current))
    return tuple(each for each in read if id(each) in there)


def _entry(stored: StoredResponse) -> ListEntry:
    return ListEntry(stored.response, stored.input[0].item if stored.input else None)


def _parts(stored: StoredResponse) -> tuple[Part, ...]:
    return (stored.response, *stored.items)
