"""`POST /v1/responses`.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.http.answers.answer import json_response, respond
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.outbound.event_bytes import named
from server.outbound.responses.fold import fold
from server.responses.creating import create
from server.schemas.base import note_unknown
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/responses")
async def create_response(request: Request) -> Response:
    """Create a response, as a stream if the request asks for one.

    A background response without a stream is returned while it is queued.
    """
    owner = owner_of(request)
    context = context_of(request)
    body = await json_body.parse(request, CreateResponse)
    note_unknown(body, "Responses")
    started = await create(context, owner, body)
    if body.background and not body.stream:
        return json_response(started.stored.response)
    feed = started.feed(context, named)
    return await respond(feed, request, stream=bool(body.stream), fold=fold)
