"""`POST /v1/chat/completions/render` and `/v1/responses/render`: the prompt that would run.

The body is that of the request itself. Nothing is sampled and nothing is stored.
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
from server.http import json_body
from server.http.answers import json_response
from server.http.authentication import authenticate
from server.ids import new_id
from server.inbound import chat, responses
from server.outbound.hidden import refuse_where_hidden
from server.schemas.chat import CreateChatCompletion
from server.schemas.responses import CreateResponse

router = APIRouter()


@router.post("/v1/chat/completions/render")
async def render_chat_completion(request: Request) -> Response:
    """The prompt of a chat completion, which repeats the reasoning before calls, hidden or not."""
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await json_body.parse(request, CreateChatCompletion)
    context.model(wanted.model)
    refuse_where_hidden(context.settings, "A rendered prompt")
    compiled = await chat.compile(wanted, context.compiling(owner))
    return json_response(await _prompt(request, compiled.plans[0]))


@router.post("/v1/responses/render")
async def render_response(request: Request) -> Response:
    """The prompt of a response; it repeats stored reasoning, hidden or not."""
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await json_body.parse(request, CreateResponse)
    context.model(wanted.model)
    refuse_where_hidden(context.settings, "A rendered prompt")
    compiled = await responses.compile(wanted, context.compiling(owner))
    return json_response(await _prompt(request, compiled.plan))


async def _prompt(request: Request, plan: TurnPlan) -> dict[str, Any]:
    """Text and ids, and what else the engine would be told."""
    told = (await context_of(request).gateway.prepare(plan, new_id("render"))).request
    is_small = threads.is_small(list(told.prompt_token_ids))
    return {
        "text": await threads.run(partial(decode, told.prompt_token_ids), small=is_small),
        "token_ids": told.prompt_token_ids,
        "count": len(told.prompt_token_ids),
        "max_tokens": told.max_tokens,
        "stop_token_ids": sorted(told.stop_token_ids),
        "grammar": told.grammar,
    }
