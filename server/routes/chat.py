"""`POST /v1/chat/completions`.

Source: https://platform.openai.com/docs/api-reference/chat
"""

import time
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import Context, context_of
from server.generation import parallel_samples
from server.generation.runs import WireEvent
from server.http import json_body
from server.http.answers import respond
from server.http.authentication import authenticate
from server.ids import new_id
from server.inbound import chat
from server.inbound.chat import CompiledChat
from server.inbound.options import effective_tier
from server.outbound.chat import ChatOutbound, ChatRenderOptions
from server.outbound.chat_fold import fold
from server.outbound.chunks import encoder, head, usage_chunk
from server.outbound.hidden import refuse_where_hidden
from server.outbound.stored_chat import stored_chat_completion
from server.persistence.completion_journal import ChatCompletionJournal
from server.replay.sealed_items import INCLUDE
from server.responses.response_object import LEFT_OUT
from server.schemas.base import note_unknown
from server.schemas.chat import CreateChatCompletion
from server.store.chat_completions.base import StoredChatCompletion
from server.store.items import SampledMessages

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    """Sample a completion; streamed where the request says so."""
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await json_body.parse(request, CreateChatCompletion)
    note_unknown(wanted, "Chat")
    model = context.model(wanted.model)
    if wanted.return_token_ids:
        refuse_where_hidden(context.settings, "'return_token_ids'", param="return_token_ids")
    compiled = await chat.compile(wanted, context.compiling(owner))
    shared = head(
        "chat.completion.chunk",
        new_id("chatcmpl"),
        created=int(time.time()),
        model=model,
        include_usage=wanted.include_usage,
        service_tier=effective_tier(wanted.priority, wanted.service_tier),
    )
    left_out = list(compiled.tools.left_out)
    opening = {LEFT_OUT: left_out} if left_out else {}
    options = _render_options(wanted, compiled, context, owner)
    outbounds = [
        ChatOutbound(shared, plan, options, index=index, opening=opening)
        for index, plan in enumerate(compiled.plans)
    ]

    def last_events() -> list[WireEvent]:
        # Before the last chunk: a client that has it may come back at once.
        if wanted.store is None:
            for call_id, said in _called(outbounds).items():
                context.recall.remember(owner, call_id, said)
        usages = [outbound.usage for outbound in outbounds]
        return [usage_chunk(shared, usages, per_prompt=len(usages))]

    def complete(completion: dict[str, Any]) -> StoredChatCompletion:
        return stored_chat_completion(wanted, completion, _called(outbounds), owner)

    journal = ChatCompletionJournal(context.store.chat_completions, complete, retry=context.retry)
    run = await parallel_samples.start(
        context.gateway,
        compiled.plans,
        outbounds,
        shared["id"],
        last_events,
        journal=journal if wanted.store else None,
    )
    encode = encoder(include_usage=wanted.include_usage)
    return await respond(
        run,
        request,
        stream=bool(wanted.stream),
        encode=encode,
        fold=fold,
        limit=context.settings.max_unread,
    )


def _render_options(
    wanted: CreateChatCompletion, compiled: CompiledChat, context: Context, owner: str
) -> ChatRenderOptions:
    settings = context.settings
    withheld = settings.raw_reasoning == "hide"
    asked = (wanted.reasoning is not None or bool(wanted.include_reasoning)) and not compiled.hidden
    sealed = (asked and withheld) or INCLUDE in (wanted.include or ())
    return ChatRenderOptions(
        hide_reasoning=compiled.hidden or withheld,
        alias=settings.reasoning_content,
        legacy=compiled.legacy,
        json=compiled.json,
        show_ids=bool(wanted.return_token_ids),
        seal=partial(context.sealer.seal, owner) if sealed else None,
    )


def _called(outbounds: Iterable[ChatOutbound]) -> dict[str, SampledMessages]:
    return dict(chain.from_iterable(each.called.items() for each in outbounds))
