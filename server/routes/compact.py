"""`POST /v1/responses/compact`: replace a conversation by its summary.

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
from server.http.answers.answer import respond
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.inbound.grammar import answer_only
from server.outbound.event_bytes import named
from server.responses.compaction import compaction_object, summary_request
from server.responses.creating import create
from server.schemas.base import note_unknown
from server.schemas.responses import CompactResponse

logger = logging.getLogger(__name__)

router = APIRouter()


@router.post("/v1/responses/compact")
async def compact(request: Request) -> Response:
    """The user's messages, unchanged, and a sealed summary of the conversation.

    Nothing is stored. The status is 502 if the model writes no summary in two attempts.
    """
    owner = owner_of(request)
    body = await json_body.parse(request, CompactResponse)
    note_unknown(body, "Compaction")
    try:
        return await _summarise(request, owner, body)
    except NoSummary:
        # Only an engine without grammars can fail to write a summary.
        logger.warning("the model wrote no summary; trying once more")
        return await _summarise(request, owner, body)


async def _summarise(request: Request, owner: str, body: CompactResponse) -> Response:
    context = context_of(request)
    summarise = await threads.run(partial(summary_request, body), threads.size_of(body.input))
    started = await create(context, owner, summarise, constraint=answer_only(context.masking))
    fold = partial(compaction_object, started.stored, partial(context.sealer.seal, owner))
    feed = started.feed(context, named)
    return await respond(feed, request, stream=False, fold=fold, reads_history=True)
