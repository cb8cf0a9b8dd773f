"""`POST /v1/responses/compact`: a conversation made short, for a client that goes on with it.

Source: https://platform.openai.com/docs/api-reference/responses/compact and the Open Responses
specification (2026-04-24)
"""

import logging
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import threads
from server.context import context_of
from server.errors import NoSummary
from server.http import json_body
from server.http.answers import respond
from server.http.authentication import authenticate
from server.inbound.grammar import answer_only
from server.outbound.encoding import named
from server.responses.compaction import ask, compacted
from server.responses.creating import create
from server.schemas.base import note_unknown
from server.schemas.responses import CompactResponse

logger = logging.getLogger(__name__)

router = APIRouter()


@router.post("/v1/responses/compact")
async def compact(request: Request) -> Response:
    """The user's messages as they were, and the model's summary of all else, sealed.

    A 502 if the model, asked twice, writes none; nothing is stored.
    """
    owner = authenticate(request).id
    wanted = await json_body.parse(request, CompactResponse)
    note_unknown(wanted, "Compaction")
    try:
        return await _summarise(request, owner, wanted)
    except NoSummary:
        # Masks make a summary certain; an engine without them gets a second chance.
        logger.warning("the model wrote no summary; it is asked again")
        return await _summarise(request, owner, wanted)


async def _summarise(request: Request, owner: str, wanted: CompactResponse) -> Response:
    context = context_of(request)
    asked = await threads.run(partial(ask, wanted), small=threads.is_small(wanted.input))
    started = await create(context, owner, asked, constraint=answer_only(context.masking))
    fold = partial(compacted, started.started, partial(context.sealer.seal, owner))
    return await respond(started.run, request, stream=False, encode=named, fold=fold)
