"""`POST /v1/responses/input_tokens`: count the tokens of a request's prompt.

Source: https://platform.openai.com/docs/api-reference/responses/input-tokens
"""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import threads
from server.context import context_of
from server.generation.turn import prompt_length
from server.http.answers.answer import json_response
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.http.request_state import state_of
from server.ids import new_id
from server.inbound import responses
from server.schemas.base import note_unknown
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/responses/input_tokens")
async def count_input_tokens(request: Request) -> Response:
    """The number of tokens that `usage.input_tokens` would have; nothing is sampled.

    A prompt may be longer than the model's context.
    """
    owner = owner_of(request)
    context = context_of(request)
    body = await json_body.parse(request, CreateResponse)
    note_unknown(body, "Responses")
    context.model(body.model)
    compiled = await responses.compile(body, context.compiling(owner, new_id("resp")))
    await compiled.close(state_of(request.scope).request_id)
    # Truncation leaves room for the answer in the context.
    plan = context.gateway.limited(compiled.plan)
    length = partial(prompt_length, plan, context.context_length)
    size = max(threads.size_of(body.input), threads.Size.MEDIUM)
    tokens = await threads.run(length, size)
    return json_response({"object": "response.input_tokens", "input_tokens": tokens})
