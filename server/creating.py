"""A response from its request to its run: what HTTP and WebSocket have in common."""

import time
from dataclasses import dataclass
from typing import Any

from server.context import Context
from server.errors import InvalidRequest
from server.ids import new_id
from server.inbound.options import today
from server.inbound.responses import read
from server.outbound.envelope import created
from server.outbound.responses import ResponsesOutbound
from server.runs import Run
from server.schemas.responses import CreateResponse
from server.store.journal import ResponseJournal


@dataclass(frozen=True, slots=True)
class Creation:
    """A response before its first token, and what makes it."""

    response: dict[str, Any]
    run: Run


async def create(context: Context, owner: str, wanted: CreateResponse) -> Creation:
    """Start to make a response. Raises APIError for all that can be known before sampling."""
    background = bool(wanted.background)
    if background and wanted.store is False:
        raise InvalidRequest("A background response is stored.", param="store")
    model = context.model(wanted.model)
    draft = await read(
        wanted,
        context.store,
        owner,
        today=today(),
        masking=context.masking,
        unsupported=context.settings.unsupported_input,
    )
    response = created(
        wanted, draft, response_id=new_id("resp"), model=model, created_at=int(time.time())
    )
    hide = context.settings.raw_reasoning == "hide"
    outbound = ResponsesOutbound(response, draft.plan, hide_reasoning=hide)
    journal = ResponseJournal(
        context.store, draft.started(owner, response), outbound.spoken, holds=background
    )
    run = await context.gateway.start(
        draft.plan,
        outbound,
        response["id"],
        journal=journal if response["store"] else None,
        background=background,
    )
    return Creation(response, run)
