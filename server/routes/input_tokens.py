"""`POST /v1/responses/input_tokens`: how long the prompt of a request would be.

Source: https://platform.openai.com/docs/api-reference/responses/input-tokens
"""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.generation.turn import prompt_length
from server.http import json_body
from server.http.answers import json_response
from server.http.authentication import authenticate
from server.inbound import responses
from server.schemas.base import note_unknown
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/responses/input_tokens")
async def count_input_tokens(request: Request) -> Response:
    """The prompt's tokens, as `usage.input_tokens` would tell them; nothing is sampled.

    A prompt that is longer than the context is counted too.
    """
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await json_body.parse(request, CreateResponse)
    note_unknown(wanted, "Responses")
    context.model(wanted.model)
    compiled = await responses.compile(wanted, context.compiling(owner))
    tokens = await asyncio.to_thread(prompt_length, compiled.plan)
    return json_response({"object": "response.input_tokens", "input_tokens": tokens})
