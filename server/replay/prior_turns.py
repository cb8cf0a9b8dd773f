"""The turns before a Responses request: the response or the conversation that it continues."""

from dataclasses import dataclass, field
from typing import Any

from server.errors import InvalidRequest, NotFound
from server.schemas.fields import invalid, label, mapping, required
from server.schemas.limits import MAX_CONVERSATION_BYTES, MAX_HISTORY
from server.schemas.responses import CreateResponse
from server.store.conversations.base import ConversationSize
from server.store.errors import PreviousNotFound
from server.store.items import StoredItem, ToolState
from server.store.responses.base import UNFINISHED, Store, StoredResponse


@dataclass(frozen=True, slots=True)
class PriorTurns:
    """The items of earlier turns.

    start_date: the date of the first turn, `YYYY-MM-DD`, which the system message names.
    read_position: up to which place the conversation was read; None without a conversation.
    in_store: False where the items came from elsewhere, so that the store may not have them.
    tool_state: the state of hosted tools after the last turn.
    """

    start_date: str
    items: tuple[StoredItem, ...] = ()
    read_position: int | None = None
    in_store: bool = True
    tool_state: ToolState = field(default_factory=dict)


def conversation_id(value: Any) -> str | None:
    """The id in a request's `conversation`: a string, or an object with an `id`."""
    if value is None:
        return None
    if isinstance(value, str):
        return label(value, "conversation")
    return required(mapping(value, "conversation"), "id", "conversation", label)


async def read_prior_turns(
    request: CreateResponse,
    store: Store,
    owner: str,
    *,
    today: str,
    previous: StoredResponse | None = None,
) -> PriorTurns:
    """The turns that the request continues; no items where it continues none.

    previous: a previous response that is not in the store, or is there without its history.

    Raises PreviousNotFound for a response that `owner` does not have, NotFound for such a
    conversation, and InvalidRequest for a request that names both or an unfinished response.
    """
    previous_id, conversation = request.previous_response_id, conversation_id(request.conversation)
    if conversation is not None:
        if previous_id is not None:
            raise InvalidRequest(
                "A request continues a response or a conversation, not both.",
                param="previous_response_id",
            )
        return await _read_conversation(request, store, owner, conversation)
    if previous_id is None:
        return PriorTurns(today)
    if previous is not None and previous.id == previous_id:
        state = previous.tool_state
        return PriorTurns(previous.start_date, previous.items, in_store=False, tool_state=state)
    stored = await store.get(owner, previous_id)
    if stored is None or stored.detached:
        raise PreviousNotFound(previous_id, detached=stored is not None)
    if stored.response["status"] in UNFINISHED:
        raise InvalidRequest(
            "The previous response has not ended; it can be continued when it has.",
            param="previous_response_id",
            code="previous_response_not_finished",
        )
    return PriorTurns(stored.start_date, stored.items, tool_state=stored.tool_state)


async def _read_conversation(
    request: CreateResponse, store: Store, owner: str, conversation: str
) -> PriorTurns:
    if request.store is False:
        raise InvalidRequest("A response of a conversation is always stored.", param="store")
    size = await store.conversations.size(owner, conversation)
    if size is not None:
        refuse_large_conversation(size, "conversation")
    read = await store.conversations.read(owner, conversation)
    if read is None:
        raise conversation_not_found(conversation, param="conversation")
    start_date = read.conversation.start_date
    return PriorTurns(start_date, read.items, read.position, tool_state=read.tool_state)


def conversation_not_found(conversation: str, *, param: str) -> NotFound:
    """The error for a conversation that the owner does not have."""
    return NotFound(f"Conversation with id '{conversation}' not found.", param=param)


def refuse_large_conversation(size: ConversationSize, param: str) -> None:
    """Raises InvalidRequest for a conversation that is too large to be read for each request."""
    if size.bytes > MAX_CONVERSATION_BYTES or size.items > MAX_HISTORY:
        problem = (
            f"the conversation has more than {MAX_CONVERSATION_BYTES >> 20} MiB or "
            f"{MAX_HISTORY} items"
        )
        raise invalid(param, problem, "conversation_too_long")
