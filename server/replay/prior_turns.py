"""What came before a Responses request: the response or the conversation that it continues."""

from dataclasses import dataclass
from typing import Any

from server.errors import InvalidRequest, NotFound
from server.schemas.fields import label, mapping
from server.schemas.responses import CreateResponse
from server.store.responses.base import (
    UNFINISHED,
    PreviousNotFound,
    Store,
    StoredItem,
    StoredResponse,
)


@dataclass(frozen=True, slots=True)
class PriorTurns:
    """The items of the turns before, and how far these reach into a conversation.

    start_date: what the system message names, `YYYY-MM-DD`; it stays the first turn's.
    kept: False where the store may not have it.
    """

    start_date: str
    items: tuple[StoredItem, ...] = ()
    seen: int | None = None
    kept: bool = True


def conversation_id(value: Any) -> str | None:
    """The id in a request's `conversation`: a string, or an object with an `id`."""
    if value is None:
        return None
    if isinstance(value, str):
        return label(value, "conversation")
    return label(mapping(value, "conversation").get("id"), "conversation.id")


async def read_prior_turns(
    request: CreateResponse,
    store: Store,
    owner: str,
    *,
    today: str,
    previous: StoredResponse | None = None,
) -> PriorTurns:
    """What the request continues, a new start where it names nothing.

    previous: a previous response that is not in the store, or not with its history. Raises
    PreviousNotFound, NotFound for a conversation that `owner` lacks, and InvalidRequest for both at
    once, and for a response that is still being made.
    """
    previous_id, conversation = request.previous_response_id, conversation_id(request.conversation)
    if conversation is not None:
        if previous_id is not None:
            raise InvalidRequest(
                "A request continues a response or a conversation, not both.",
                param="previous_response_id",
            )
        return await _of_conversation(request, store, owner, conversation)
    if previous_id is None:
        return PriorTurns(today)
    if previous is not None and previous.id == previous_id:
        return PriorTurns(previous.start_date, previous.items, kept=False)
    stored = await store.get(owner, previous_id)
    if stored is None or stored.detached:
        raise PreviousNotFound(previous_id)
    if (status := stored.response["status"]) in UNFINISHED:
        raise InvalidRequest(
            f"The previous response is still '{status}'; it can be continued when it has ended.",
            param="previous_response_id",
            code="previous_response_not_finished",
        )
    return PriorTurns(stored.start_date, stored.items)


async def _of_conversation(
    request: CreateResponse, store: Store, owner: str, conversation: str
) -> PriorTurns:
    if request.store is False:
        raise InvalidRequest("What belongs to a conversation is stored.", param="store")
    read = await store.conversations.read(owner, conversation)
    if read is None:
        raise conversation_not_found(conversation, param="conversation")
    return PriorTurns(read.conversation.start_date, read.items, read.position)


def conversation_not_found(conversation: str, *, param: str) -> NotFound:
    """The error for a conversation that the owner lacks."""
    return NotFound(f"Conversation with id '{conversation}' not found.", param=param)
