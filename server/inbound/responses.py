"""A Responses request as a plan, with what the store remembers of the conversation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harmony.messages import SystemContent
from server.errors import InvalidRequest, NotFound
from server.inbound import items
from server.inbound.conversation import conversation
from server.inbound.fields import invalid
from server.inbound.formats import AnswerFormat, read_format
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import Tools, read_tools
from server.plan import TurnPlan
from server.schemas.base import refuse
from server.schemas.responses import CreateResponse
from server.store.base import Item, Store, StoredItem, StoredResponse

LOGPROBS = "message.output_text.logprobs"
UNSERVED = ("background", "context_management", "conversation", "moderation", "prompt")


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store has for a request: the response it continues, and items by id."""

    previous: StoredResponse | None = None
    items: Mapping[str, StoredItem] = field(default_factory=dict)

    @property
    def history(self) -> tuple[StoredItem, ...]:
        """The items before the request's own."""
        return self.previous.items if self.previous else ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A request that can be sampled, and what is stored beside its answer.

    input: the request's own items; history: those of the turns before.
    """

    plan: TurnPlan
    tools: Tools
    start_date: str
    history: tuple[StoredItem, ...]
    input: tuple[StoredItem, ...]


async def read(request: CreateResponse, store: Store, owner: str, *, today: str) -> Draft:
    """Compile a request. `today` is `YYYY-MM-DD`; a conversation keeps its first one.

    Raises InvalidRequest, and NotFound for a previous response or an item that `owner` lacks.
    """
    for name in UNSERVED:
        refuse(name, getattr(request, name))
    if request.reasoning and request.reasoning.context == "all_turns":
        refuse("reasoning.context", request.reasoning.context)
    given = items.normalise(request.input)
    remembered = await _recall(request.previous_response_id, given, store, owner)
    if not given and remembered.previous is None:
        raise InvalidRequest("The request has no input.", param="input", code="missing_input")
    return _compile(request, given, remembered, today)


async def _recall(
    previous_id: str | None, given: list[Item], store: Store, owner: str
) -> Remembered:
    known = await store.items(owner, items.ids_of(given))
    if previous_id is None:
        return Remembered(items=known)
    previous = await store.get(owner, previous_id)
    if previous is None:
        raise NotFound(
            f"Previous response with id '{previous_id}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    return Remembered(previous, known)
