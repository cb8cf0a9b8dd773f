"""A store in this process's memory: the least recently used responses are forgotten first."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from server.store import codec
from server.store.change_signal import ChangeSignal, ChangeSignals
from server.store.chat_completions.memory import MemoryChatCompletions
from server.store.conversations.memory import MemoryConversations
from server.store.memory_size import MOST_BYTES, MemorySizes, Part
from server.store.responses.base import (
    CANCELS,
    Event,
    Ledger,
    RunLost,
    StoredItem,
    StoredResponse,
)

CAPACITY = 10_000
_BATCH = 1000

_Key = tuple[str, str]


@dataclass(slots=True)
class _Run:
    """A response that is being made: who asked for it, and its events so far."""

    owner: str
    events: list[Event] = field(default_factory=list)
    cancelled: bool = False


class MemoryStore:
    """Keeps up to `capacity` responses, >= 1; they are gone when the process ends.

    most: bytes that all responses may take, roughly; the last one is kept in any case.
    """

    sealing_key = None

    def __init__(self, capacity: int = CAPACITY, most: int = MOST_BYTES) -> None:
        self.chat_completions = MemoryChatCompletions(capacity, most)
        self.conversations = MemoryConversations(capacity, most)
        self._capacity = capacity
        self._most = most
        self._sizes = MemorySizes()
        self._responses: OrderedDict[_Key, StoredResponse] = OrderedDict()
        self._items: dict[_Key, StoredItem] = {}
        self._led_to: dict[_Key, Sequence[StoredItem]] = {}
        self._ledgers: dict[_Key, Sequence[bytes]] = {}
        self._runs: dict[str, _Run] = {}
        self._signals = ChangeSignals()

    async def start(self) -> None:
        """Nothing is needed."""

    async def stop(self) -> None:
        """Nothing is held."""

    async def check(self) -> None:
        """Nothing can be wrong."""

    async def put(self, stored: StoredResponse, events: Sequence[Event] = ()) -> None:
        """Keep it, and forget the least recently used one where there is no room."""
        ledger = await _packed(events)
        await self._sizes.measure(_parts(stored))
        self._put(stored, ledger)

    async def begin(self, stored: StoredResponse) -> None:
        """Keep a response in progress."""
        await self._sizes.measure(_parts(stored))
        self._keep(stored)
        self._make_room()
        self._runs[stored.id] = _Run(stored.owner)

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        """Keep a run's next events."""
        self._run(response_id).events[events[0]["sequence_number"] :] = events
        self._signals.notify(response_id)

    async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Keep the whole response, unless it was deleted while it was made."""
        ledger = await _packed(events)
        await self._sizes.measure(_parts(stored))
        key = (stored.owner, stored.id)
        kept = self._responses.get(key)
        if stored.id not in self._runs and kept and kept.response == stored.response:
            return
        self._run(stored.id)
        del self._runs[stored.id]
        if key in self._responses:
            self._put(stored, ledger)
        if stored.conversation_id and stored.conversation_items:
            await self.conversations.add(
                stored.owner, stored.conversation_id, stored.conversation_items
            )
        self._signals.notify(stored.id)

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """The owner's response; it counts as used."""
        key = (owner, response_id)
        if key in self._responses:
            self._responses.move_to_end(key)
        return self._responses.get(key)

    async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
        """The owner's response as the API shows it."""
        stored = await self.get(owner, response_id)
        return None if stored is None else stored.response

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        """The response's events."""
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
        kept = await codec.unpack(packed[first:last])
        more = last < len(packed)
        return Ledger(tuple(kept[start - first * _BATCH :]), ended=not more, more=more)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response and its items."""
        found = self._forget((owner, response_id))
        if found:
            await self.cancel(response_id)
        return found

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """The owner's items among `ids`."""
        keys = ((owner, item_id) for item_id in ids)
        return {key[1]: self._items[key] for key in keys if key in self._items}

    async def output_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, Sequence[StoredItem]]:
        """Output up to calls."""
        keys = ((owner, call_id) for call_id in call_ids)
        return {key[1]: self._led_to[key] for key in keys if key in self._led_to}

    async def cancel(self, response_id: str) -> None:
        """Mark the run."""
        if run := self._runs.get(response_id):
            run.cancelled = True
            self._signals.notify(CANCELS)

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        """Those of the runs that are marked."""
        return frozenset(
            name for name in running if (run := self._runs.get(name)) and run.cancelled
        )

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[StoredResponse]:
        """None: no other gateway sees this memory."""
        return ()

    async def take_over_from_ended(self) -> Sequence[StoredResponse]:
        """None: no other gateway sees this memory."""
        return ()

    async def cancelled(self) -> frozenset[str]:
        """The runs that are marked."""
        return frozenset(name for name, run in self._runs.items() if run.cancelled)

    async def sweep(self, age: float) -> int:
        """Nothing: the capacity bounds what is kept."""
        return 0

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """A changes of this process."""
        return self._signals.listen(topic)

    def _run(self, response_id: str) -> _Run:
        if response_id not in self._runs:
            raise RunLost(f"The run of response '{response_id}' is not this server's any more.")
        return self._runs[response_id]

    def _put(self, stored: StoredResponse, ledger: Sequence[bytes]) -> None:
        self._keep(stored)
        self._ledgers[(stored.owner, stored.id)] = ledger
        self._sizes.hold(ledger)
        self._make_room()

    def _keep(self, stored: StoredResponse) -> None:
        key = (stored.owner, stored.id)
        stored = replace(stored, history=()) if stored.detached else stored
        # Before the old one goes: what both have need not be weighed anew.
        self._sizes.hold(_parts(stored))
        self._forget(key)
        self._responses[key] = stored
        for position, kept in enumerate(stored.output, 1):
            self._items[(stored.owner, kept.item["id"])] = kept
            if call_id := kept.item.get("call_id"):
                self._led_to[(stored.owner, call_id)] = stored.output[:position]
        for kept in stored.input:
            # A client may send an item back changed: its first form is the one that has the id.
            self._items.setdefault((stored.owner, kept.item["id"]), kept)

    def _make_room(self) -> None:
        while len(self._responses) > 1 and (
            len(self._responses) > self._capacity or self._sizes.total > self._most
        ):
            self._forget(next(iter(self._responses)))

    def _forget(self, key: _Key) -> bool:
        stored = self._responses.pop(key, None)
        if stored is None:
            return False
        self._sizes.release(_parts(stored))
        if (ledger := self._ledgers.pop(key, None)) is not None:
            self._sizes.release(ledger)
        for kept in stored.output:
            self._led_to.pop((stored.owner, kept.item.get("call_id", "")), None)
        for kept in (*stored.input, *stored.output):
            item_key = (stored.owner, kept.item["id"])
            if self._items.get(item_key) is kept:
                del self._items[item_key]
        return True


async def _packed(events: Sequence[Event]) -> list[bytes]:
    """All events of a response, deflated in batches, so that few can be read at a time."""
    return [
        await codec.pack(events[first : first + _BATCH]) for first in range(0, len(events), _BATCH)
    ]


def _parts(stored: StoredResponse) -> tuple[Part, ...]:
    return (stored.response, *stored.items)
