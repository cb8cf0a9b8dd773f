"""`POST /v1/chat/completions/render` and `/v1/responses/render`: show a request's prompt.

The body is that of the request whose prompt is shown. Nothing is sampled or stored. With
`?return_token_bytes=true` the answer has the bytes of each token.
"""

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from harmony.tokenizer import decode
from server import threads
from server.context import context_of
from server.generation.plan import TurnPlan
from server.http.answers.answer import json_response
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.http.request_state import state_of
from server.ids import new_id
from server.inbound import chat, responses
from server.inbound.queries import read_boolean
from server.outbound.raw_reasoning import refuse_if_reasoning_hidden
from server.outbound.token_bytes import hexadecimal
from server.schemas.chat import CreateChatCompletion
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/chat/completions/render")
async def render_chat_completion(request: Request) -> Response:
    """The prompt of a chat completion. It includes the reasoning before calls, even if hidden."""
    owner = owner_of(request)
    context = context_of(request)
    body = await json_body.parse(request, CreateChatCompletion)
    context.model(body.model)
    refuse_if_reasoning_hidden(context.settings, "A rendered prompt")
    compiled = await chat.compile(body, context.compiling(owner, new_id("chatcmpl")))
    await compiled.close(state_of(request.scope).request_id)
    return json_response(await _prompt(request, compiled.plans[0]))


@router.post("/v1/responses/render")
async def render_response(request: Request) -> Response:
    """The prompt of a response. It includes stored reasoning, even if hidden."""
    owner = owner_of(request)
    context = context_of(request)
    body = await json_body.parse(request, CreateResponse)
    context.model(body.model)
    refuse_if_reasoning_hidden(context.settings, "A rendered prompt")
    compiled = await responses.compile(body, context.compiling(owner, new_id("resp")))
    await compiled.close(state_of(request.scope).request_id)
    return json_response(await _prompt(request, compiled.plan))


async def _prompt(request: Request, plan: TurnPlan) -> dict[str, Any]:
    """The prompt as text and as token ids, and the parameters that the engine would get.

    Raises InvalidRequest for a `return_token_bytes` that is no boolean.
    """
    wants_bytes = read_boolean(request.query_params, "return_token_bytes")
    generation = (await context_of(request).gateway.prepare(plan, new_id("render"))).request
    size = threads.size_of(list(generation.prompt_token_ids))
    prompt = {
        "text": await threads.run(partial(decode, generation.prompt_token_ids), size),
        "token_ids": generation.prompt_token_ids,
        "count": len(generation.prompt_token_ids),
        "max_tokens": generation.max_tokens,
        "stop_token_ids": sorted(generation.stop_token_ids),
        "grammar": generation.grammar,
    }
    if wants_bytes:
        encoded = partial(hexadecimal, generation.prompt_token_ids)
        prompt["token_bytes"] = await threads.run(encoded, size)
    return prompt
