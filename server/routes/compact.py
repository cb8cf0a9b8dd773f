"""`POST /v1/responses/compact`: a conversation made short, for a client that goes on with it.

Source: https://platform.openai.com/docs/api-reference/responses/compact and the Open Responses
specification (2026-04-24)
"""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import body, sse, threads
from server.auth import authenticate
from server.compaction import ask, compacted
from server.context import context_of
from server.creating import create
from server.respond import respond
from server.schemas.base import note_unknown
from server.schemas.responses import CompactResponse

router = APIRouter()


@router.post("/v1/responses/compact")
async def compact(request: Request) -> Response:
    """The user's messages as they were, and the model's summary of all else, sealed."""
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await body.parse(request, CompactResponse)
    note_unknown(wanted, "Compaction")
    is_small = threads.is_small(wanted.input)
    asked = await threads.run(partial(ask, wanted), small=is_small)
    creation = await create(context, owner, asked)
    fold = partial(compacted, creation.started, partial(context.sealer.seal, owner))
    return await respond(creation.run, request, stream=False, encode=sse.named, fold=fold)
