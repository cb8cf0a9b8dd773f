"""A response from its request to its run: what HTTP and WebSocket have in common."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from harmony.messages import Message
from server.context import Context
from server.errors import InvalidRequest
from server.generation.runs import Run
from server.ids import new_id
from server.inbound.grammar import Constraint
from server.inbound.responses import compile
from server.outbound.hidden import refuse_where_hidden
from server.outbound.responses import ResponsesOutbound
from server.persistence.response_journal import ResponseJournal
from server.replay.sealed_items import INCLUDE
from server.responses.response_object import created
from server.schemas.responses import CreateResponse
from server.store.responses.base import StoredResponse


@dataclass(frozen=True, slots=True)
class StartedResponse:
    """A response before its first token, and what makes it."""

    response: dict[str, Any]
    run: Run
    started: StoredResponse
    messages_by_item_id: Mapping[str, Message]


async def create(
    context: Context,
    owner: str,
    wanted: CreateResponse,
    *,
    previous: StoredResponse | None = None,
    generate: bool = True,
    constraint: Constraint | None = None,
) -> StartedResponse:
    """Start to make a response. Raises APIError for all that can be known before sampling.

    previous: a previous response that is not in the store, or not with its history. generate:
    False makes a response that says nothing, to be continued. constraint: masks in place of what
    the request itself asks for.
    """
    background = bool(wanted.background)
    if background and wanted.store is False:
        raise InvalidRequest("A background response is stored.", param="store")
    if wanted.return_token_ids:
        refuse_where_hidden(context.settings, "'return_token_ids'", param="return_token_ids")
    model = context.model(wanted.model)
    compiled = await compile(
        wanted, context.compiling(owner, previous=previous, may_be_empty=not generate)
    )
    plan = compiled.plan if constraint is None else constraint.applied(compiled.plan)
    response = created(
        wanted, compiled, response_id=new_id("resp"), model=model, created_at=int(time.time())
    )
    hide = context.settings.raw_reasoning == "hide"
    outbound = ResponsesOutbound(
        response,
        plan,
        hide_reasoning=hide,
        show_ids=bool(wanted.return_token_ids),
        seal=partial(context.sealer.seal, owner) if INCLUDE in (wanted.include or ()) else None,
    )
    started = compiled.started(owner, response)
    journal = ResponseJournal(
        context.store, started, outbound.messages_by_item_id, holds=background, retry=context.retry
    )
    kept = journal if response["store"] else None
    if generate:
        run = await context.gateway.start(
            plan, outbound, response["id"], journal=kept, background=background
        )
    else:
        run = await context.gateway.start_empty(outbound, response["id"], journal=kept)
    return StartedResponse(response, run, started, outbound.messages_by_item_id)
