"""`POST /v1/responses`.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.http import json_body
from server.http.answers import json_response, respond
from server.http.authentication import authenticate
from server.outbound.encoding import named
from server.outbound.fold import fold
from server.persistence.following import stream_stored
from server.responses.creating import create
from server.schemas.base import note_unknown
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/responses")
async def create_response(request: Request) -> Response:
    """Sample a response; streamed where the request says so.

    One that is made in the background is told of as it is queued.
    """
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await json_body.parse(request, CreateResponse)
    note_unknown(wanted, "Responses")
    started = await create(context, owner, wanted)
    if wanted.background and not wanted.stream:
        return json_response(started.response)
    stored = partial(stream_stored, context.store, owner, started.response["id"])
    return await respond(
        started.run,
        request,
        stream=bool(wanted.stream),
        encode=named,
        fold=fold,
        limit=context.settings.max_unread,
        stored=stored if started.run.has_journal else None,
    )
