"""What is kept between requests, and the seam to where it is kept."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harmony.messages import Message
from server.errors import NotFound, Unavailable
from server.store.change_signal import ChangeSignal
from server.store.chat_completions.base import ChatCompletionStore
from server.store.conversations.base import ConversationStore
from server.store.items import Item as Item
from server.store.items import StoredItem as StoredItem

Event = dict[str, Any]

UNFINISHED = frozenset({"queued", "in_progress"})
"""The statuses of a response that is being made."""

CANCELS = "cancels"
"""What is rung when a run, of whatever gateway, is to be cancelled."""


class StoreUnavailable(Unavailable):
    """The store cannot be reached or has no room; what needs no store can still be served."""

    default_code = "store_unavailable"


class StoreDamaged(StoreUnavailable):
    """The store's file is damaged, deleted or replaced. Only a person can mend that.

    advice: for the log and the terminal: what is wrong, and what to do.
    """

    def __init__(self, message: str, *, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class RunLost(StoreUnavailable):
    """Another gateway took the run over, or it was never begun here: nothing of it is kept."""


class PreviousNotFound(NotFound):
    """The response that a new one continues is not there, or was deleted meanwhile."""

    default_code = "previous_response_not_found"

    def __init__(self, response_id: str) -> None:
        message = f"Previous response with id '{response_id}' not found."
        super().__init__(message, param="previous_response_id")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, and all that continuing it takes.

    owner: the principal's id. response: the API's object; its output is that of `output`.
    start_date: what the system message names, `YYYY-MM-DD`. history: items of the turns before;
    input and output: of this one. What is kept of the history is where it is to be found: in the
    response's `previous_response_id`, or in its `conversation` up to the place `read_position`.
    detached: what it continues may not be kept, and so its history is not; only who has that
    history can continue it.
    """

    owner: str
    response: dict[str, Any]
    start_date: str
    history: tuple[StoredItem, ...]
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]
    read_position: int | None = None
    detached: bool = False

    @property
    def id(self) -> str:
        """The response's own id."""
        return str(self.response["id"])

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the response belongs to."""
        conversation = self.response.get("conversation")
        return conversation["id"] if conversation else None

    @property
    def conversation_items(self) -> tuple[StoredItem, ...]:
        """What the response adds to its conversation: nothing where it failed."""
        ended_well = self.response["status"] in ("completed", "incomplete")
        return (*self.input, *self.output) if ended_well else ()

    @property
    def items(self) -> tuple[StoredItem, ...]:
        """What a response that continues this one has as its history."""
        return (*self.history, *self.input, *self.output)

    def ended(
        self, response: dict[str, Any], messages_by_item_id: Mapping[str, Message]
    ) -> "StoredResponse":
        """The response as its last event shows it.

        messages_by_item_id: what the model said, by the id of the output item.
        """
        output = (
            StoredItem(item, messages_by_item_id.get(item["id"])) for item in response["output"]
        )
        return replace(self, response=response, output=tuple(output))


@dataclass(frozen=True, slots=True)
class Ledger:
    """A response's events from a position on, as far as they are kept.

    ended: no events come after these. more: some that come after these are kept already.
    """

    events: tuple[Event, ...]
    ended: bool
    more: bool = False


class Store(Protocol):
    """Keeps responses for their owners (principals' ids); nobody else's request finds them.

    One store object belongs to one gateway, which runs what it begins. What a method has
    returned from survives the process where the store is durable. All raise StoreUnavailable.
    """

    @property
    def sealing_key(self) -> str | None:
        """The Fernet key of all gateways that share the store, once it is started; None where
        nothing outlives the process."""
        ...

    @property
    def conversations(self) -> ConversationStore:
        """What keeps conversations, in the same place. A response that ends well is added to its
        conversation as its end is kept."""
        ...

    @property
    def chat_completions(self) -> ChatCompletionStore:
        """What keeps chat completions, in the same place and for as long."""
        ...

    async def start(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def stop(self) -> None:
        """Let go of all connections."""
        ...

    async def check(self) -> None:
        """Returns where a response could be kept now, as far as a look can tell."""
        ...

    async def put(self, stored: StoredResponse, events: Sequence[Event] = ()) -> None:
        """Keep a response that has ended, under a new id."""
        ...

    async def begin(self, stored: StoredResponse) -> None:
        """Keep a response that this gateway starts to make. Raises PreviousNotFound."""
        ...

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        """Keep the next events of a run. Raises RunLost.

        Idempotent: events from the same sequence number on replace those of an earlier call, whose
        commit may have succeeded though its acknowledgement was lost.
        """
        ...

    async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Keep how a run ended, with all its events. Raises RunLost.

        Idempotent: a second call with the same response changes nothing.
        """
        ...

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """The owner's response with its history; None where there is none."""
        ...

    async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
        """The API's object of the owner's response; None where there is none."""
        ...

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        """The events of the owner's response from position `start` on; None where there is none.

        most: about how many events are wanted at most, >= 1; None is all.
        """
        ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget the owner's response; False where there is none. A run of it is cancelled."""
        ...

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """Those of the owner's input and output items that have one of `ids`, by id."""
        ...

    async def output_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, Sequence[StoredItem]]:
        """By call id, the output of the owner's response up to that call and with it."""
        ...

    async def cancel(self, response_id: str) -> None:
        """Ask the gateway that runs the response to end it."""
        ...

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        """Say that these responses are being made here. Those to be cancelled come back.

        With none too it returns only where what others say reaches the store.
        """
        ...

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[StoredResponse]:
        """Take over the runs whose gateway has said nothing for more than `silent` seconds.

        running: responses that run here; after a pause of this process they are only late.
        """
        ...

    async def take_over_from_ended(self) -> Sequence[StoredResponse]:
        """Take over the runs of gateways that are known to have ended: nobody holds their locks."""
        ...

    async def cancelled(self) -> frozenset[str]:
        """Which responses are made here and to be cancelled. Others may write meanwhile."""
        ...

    async def sweep(self, age: float) -> int:
        """Forget responses that are older than `age` seconds; how many."""
        ...

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """A changes that rings when a response's ledger has grown or ended (the topic is its id).

        The topic CANCELS rings when some run is to be cancelled.
        """
        ...
