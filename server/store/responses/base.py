"""The store's protocol, and the stored form of a response."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from harmony.messages import Message
from server.store.approvals.base import AnsweredRequests
from server.store.change_signal import ChangeSignal
from server.store.chat_completions.base import ChatCompletionStore
from server.store.containers.base import ContainerStore
from server.store.conversations.base import ConversationStore
from server.store.files.base import FileStore
from server.store.items import NO_STATE, Item, StoredItem, ToolState
from server.store.lists import ListPage, ListQuery, Page

Event = dict[str, Any]

NO_MESSAGES: Mapping[str, Message] = {}

UNFINISHED = frozenset({"queued", "in_progress"})
"""The statuses of a response that is being made."""

CANCELS = "cancels"
"""The topic that is notified when a run of any gateway is marked for cancellation."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, and everything that a later response needs to continue it.

    owner: the digest of an API key. response: the API's object; its output is that of `output`.
    start_date: the date in the system message, `YYYY-MM-DD`. history: the items of earlier turns;
    input and output: those of this turn. The history is stored as a reference only: to the
    response's `previous_response_id`, or to its `conversation` up to `read_position`.
    detached: the earlier turns may not be stored, so the history is not; only a client that has
    the history can continue the response. tool_state: that of the earlier turns, and after the
    response's end its own.
    """

    owner: str
    response: dict[str, Any]
    start_date: str
    history: tuple[StoredItem, ...]
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]
    read_position: int | None = None
    detached: bool = False
    tool_state: ToolState = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The response's id."""
        return str(self.response["id"])

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation that the response belongs to; None if there is none."""
        conversation = self.response.get("conversation")
        return conversation["id"] if conversation else None

    @property
    def conversation_items(self) -> tuple[StoredItem, ...]:
        """The items that the response adds to its conversation: none if it failed."""
        succeeded = self.response["status"] in ("completed", "incomplete")
        return (*self.input, *self.output) if succeeded else ()

    @property
    def items(self) -> tuple[StoredItem, ...]:
        """The history of a response that continues this one."""
        return (*self.history, *self.input, *self.output)

    def ended(
        self,
        response: dict[str, Any],
        messages_by_item_id: Mapping[str, Message],
        results_by_item_id: Mapping[str, Message] = NO_MESSAGES,
        tool_state: ToolState = NO_STATE,
    ) -> "StoredResponse":
        """Return the response as its terminal event shows it.

        messages_by_item_id: the sampled messages, by the id of their output item.
        results_by_item_id: the results of hosted calls, by the id of their output item.
        tool_state: the states that replace those of earlier turns.
        """
        output = (
            StoredItem(
                item, messages_by_item_id.get(item["id"]), results_by_item_id.get(item["id"])
            )
            for item in response["output"]
        )
        state = {**self.tool_state, **tool_state}
        return replace(self, response=response, output=tuple(output), tool_state=state)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A response's stored events from a position on.

    ended: no events follow these. more: further events are already stored.
    """

    events: tuple[Event, ...]
    ended: bool
    more: bool = False


class Store(Protocol):
    """Stores responses for their owners. Other owners do not find them.

    A store object belongs to one gateway, which makes the responses that it begins. In a database,
    a method's changes are committed when it returns. All methods raise StoreUnavailable.
    """

    @property
    def sealing_key(self) -> str | None:
        """The Fernet key of all gateways that share the store, once it is started. None if the
        store is in memory."""
        ...

    def now(self) -> float:
        """Return Unix seconds of a clock that all gateways of the store share."""
        ...

    @property
    def conversations(self) -> ConversationStore:
        """The store of conversations, in the same place. A response that completes is added to
        its conversation in the transaction that stores its end."""
        ...

    @property
    def chat_completions(self) -> ChatCompletionStore:
        """The store of chat completions, in the same place and with the same lifetime."""
        ...

    @property
    def files(self) -> FileStore:
        """The store of uploaded files, in the same place, without their content."""
        ...

    @property
    def containers(self) -> ContainerStore:
        """The store of containers, in the same place."""
        ...

    @property
    def approvals(self) -> AnsweredRequests:
        """Which requests for approval have been answered, in the same place."""
        ...

    async def start(self) -> None:
        """Connect, and upgrade the schema."""
        ...

    async def stop(self) -> None:
        """Close all connections."""
        ...

    async def check(self) -> None:
        """Raise StoreUnavailable if a response could probably not be stored now."""
        ...

    async def begin(self, stored: StoredResponse) -> None:
        """Store a response that this gateway starts to make. Raises PreviousNotFound."""
        ...

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        """Store the next events of a run. Raises RunLost.

        Idempotent: events from the same sequence number on replace those of an earlier call, whose
        commit may have succeeded although its acknowledgement was lost.
        """
        ...

    async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        """Store the ended response of a run with all its events. Raises RunLost.

        Idempotent: a second call with the same response changes nothing.
        """
        ...

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return the owner's response with its history; None if there is none."""
        ...

    async def input_items(
        self, owner: str, response_id: str, query: ListQuery
    ) -> Page[Item] | None:
        """Return a page of the history and input of the owner's response; None if there is none.

        It may end early: see `fitting`. `query.after` may be deleted: see `page_in_memory`.
        """
        ...

    async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
        """Return the API's object of the owner's response; None if there is none."""
        ...

    async def list(self, owner: str, query: ListQuery) -> ListPage:
        """Return a page of the owner's responses. `query.after` may be deleted: see `read_rows`.

        Listed are those that belong to no conversation and that no stored response continues. A
        detached one does not count as continuing another. The API's objects may lack their output.
        The page may end early: see `fitting`.
        """
        ...

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        """Return the events of the owner's response from `start` on; None if there is none.

        most: the approximate maximum of events, >= 1; None returns all.
        """
        ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Delete the owner's response and cancel its run; False if there is none."""
        ...

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """Return the owner's items among `ids`, by id, of responses or else of conversations.

        Of several with one id it returns an output item, or else the earliest: a client may send
        an item back changed.
        """
        ...

    async def turns_up_to_calls(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, Sequence[StoredItem]]:
        """Return, by call id, the output of the owner's response that ends with that call.

        It begins after the call before: see `server.store.items.turns_up_to_calls`.
        """
        ...

    async def cancel(self, response_id: str) -> None:
        """Mark the response for cancellation by the gateway that makes it."""
        ...

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        """Report that this gateway makes these responses; return those marked for cancellation.

        With an empty `running` it still checks that the store can be written.
        """
        ...

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[str]:
        """Take over the runs that two calls in a row find late, without a heartbeat between them.

        A run is late if its gateway sent no heartbeat for more than `silent` seconds. All seem so
        after the store's clock was set forward, until the next heartbeats. Return the ids of the
        responses, which may be deleted.

        running: this gateway's own runs, which are not taken over although they may be late after
        a pause of the process.
        """
        ...

    async def take_over_from_ended(self) -> Sequence[str]:
        """Take over the runs of gateways that have ended, which released their locks."""
        ...

    async def taken_over(self, response_id: str) -> StoredResponse:
        """Return a response whose run was taken over, without its history. Raises RunLost."""
        ...

    async def cancelled(self) -> frozenset[str]:
        """Return this gateway's responses that are marked for cancellation, without a write."""
        ...

    async def sweep(self, age: float) -> int:
        """Delete what is older than `age` seconds; return the number of objects."""
        ...

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """Return a signal that is set when a response's ledger has grown or ended.

        topic: the response's id; or CANCELS, whose signal is set when a run is marked for
        cancellation.
        """
        ...
