"""`POST /v1/responses`, and `GET` and `DELETE /v1/responses/{id}`.

Source: https://platform.openai.com/docs/api-reference/responses
"""

import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import body, sse
from server.auth import authenticate
from server.context import context_of
from server.errors import NotFound
from server.ids import new_id
from server.inbound.options import today
from server.inbound.responses import read
from server.outbound.envelope import created
from server.outbound.fold import fold
from server.outbound.responses import ResponsesOutbound
from server.respond import json_response, respond
from server.schemas.base import note_unknown
from server.schemas.responses import CreateResponse
from server.store.journal import ResponseJournal

router = APIRouter()


@router.post("/v1/responses")
async def create_response(request: Request) -> Response:
    """Sample a response; streamed where the request says so."""
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await body.parse(request, CreateResponse)
    note_unknown(wanted, "Responses")
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
    journal = ResponseJournal(context.store, draft.started(owner, response), outbound.spoken)
    run = await context.gateway.start(
        draft.plan, outbound, response["id"], journal=journal if response["store"] else None
    )
    return await respond(run, request, stream=bool(wanted.stream), encode=sse.named, fold=fold)


@router.get("/v1/responses/{response_id}")
async def retrieve_response(request: Request, response_id: str) -> Response:
    """A stored response as it stands; 404 for any other, and for another key's."""
    owner = authenticate(request).id
    response = await context_of(request).store.show(owner, response_id)
    if response is None:
        raise _not_found(response_id)
    return json_response(response)


@router.delete("/v1/responses/{response_id}")
async def delete_response(request: Request, response_id: str) -> Response:
    """Forget a stored response. Those that continue it keep what they know."""
    owner = authenticate(request).id
    if not await context_of(request).store.delete(owner, response_id):
        raise _not_found(response_id)
    return json_response({"id": response_id, "object": "response", "deleted": True})


def _not_found(response_id: str) -> NotFound:
    return NotFound(f"Response with id '{response_id}' not found.", param="response_id")
