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
from server.http.answers.answer import json_response
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.http.request_state import state_of
from server.ids import new_id
from server.inbound import chat, responses
from server.inbound.compiled import CompileContext, CompiledRequest
from server.inbound.queries import read_boolean
from server.outbound.raw_reasoning import refuse_if_reasoning_hidden
from server.outbound.token_bytes import hexadecimal
from server.schemas.chat import CreateChatCompletion
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/chat/completions/render")
async def render_chat_completion(request: Request) -> Response:
    """The prompt of a chat completion. It includes the reasoning before calls, even if hidden."""
    body = await json_body.parse(request, CreateChatCompletion)
    compiled = await chat.compile(body, _compiling(request, body.model, "chatcmpl"))
    return json_response(await _prompt(request, compiled))


@router.post("/v1/responses/render")
async def render_response(request: Request) -> Response:
    """The prompt of a response. It includes stored reasoning, even if hidden."""
    body = await json_body.parse(request, CreateResponse)
    compiled = await responses.compile(body, _compiling(request, body.model, "resp"))
    return json_response(await _prompt(request, compiled))


def _compiling(request: Request, model: str | None, prefix: str) -> CompileContext:
    """The context to compile the request in. Raises APIError if its prompt may not be shown.

    model: as the request names it. prefix: that of the ids of its answers.
    """
    context = context_of(request)
    context.model(model)
    refuse_if_reasoning_hidden(context.settings, "A rendered prompt")
    return context.compiling(owner_of(request), new_id(prefix))


async def _prompt(request: Request, compiled: CompiledRequest) -> dict[str, Any]:
    """The prompt as text and as token ids, and the parameters that the engine would get.

    Raises InvalidRequest for a `return_token_bytes` that is no boolean.
    """
    await compiled.close(state_of(request.scope).request_id)
    wants_bytes = read_boolean(request.query_params, "return_token_bytes")
    gateway = context_of(request).gateway
    generation = (await gateway.prepare(compiled.plans[0], new_id("render"))).request
    ids = generation.prompt_token_ids
    size = threads.size_of(list(ids))
    prompt = {
        "text": await threads.run(partial(decode, ids), size),
        "token_ids": ids,
        "count": len(ids),
        "max_tokens": generation.max_tokens,
        "stop_token_ids": sorted(generation.stop_token_ids),
        "grammar": generation.grammar,
    }
    if wants_bytes:
        prompt["token_bytes"] = await threads.run(partial(hexadecimal, ids), size)
    return prompt
