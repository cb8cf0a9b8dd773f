"""`POST /v1/chat/completions`.

Source: https://platform.openai.com/docs/api-reference/chat
"""

import asyncio
import time
from itertools import chain

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import body, choices
from server.auth import authenticate
from server.context import context_of
from server.ids import new_id
from server.inbound.chat import read
from server.inbound.messages import call_ids
from server.inbound.options import today
from server.outbound.chat import ChatOutbound, Manner, encoder, head, usage_chunk
from server.outbound.chat_fold import fold
from server.respond import respond
from server.routes.hidden import refuse_where_hidden
from server.runs import WireEvent
from server.schemas.base import note_unknown
from server.schemas.chat import CreateChatCompletion

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    """Sample a completion; streamed where the request says so."""
    owner = authenticate(request).id
    context = context_of(request)
    wanted = await body.parse(request, CreateChatCompletion)
    note_unknown(wanted, "Chat")
    model = context.model(wanted.model)
    known = context.recall.find(owner, call_ids(wanted.messages))
    draft = await asyncio.to_thread(
        read, wanted, today=today(), masking=context.masking, known=known
    )
    completion_id = new_id("chatcmpl")
    shared = head(
        completion_id,
        created=int(time.time()),
        model=model,
        include_usage=wanted.include_usage,
    )
    if wanted.return_token_ids:
        refuse_where_hidden(context.settings, "'return_token_ids'", param="return_token_ids")
    manner = Manner(
        hide_reasoning=draft.hidden or context.settings.raw_reasoning == "hide",
        alias=context.settings.reasoning_content,
        legacy=draft.legacy,
        json=draft.json,
        show_ids=bool(wanted.return_token_ids),
    )
    outbounds = [
        ChatOutbound(shared, plan, manner, index=index) for index, plan in enumerate(draft.plans)
    ]

    def last_events() -> list[WireEvent]:
        # Before the last chunk: a client that has it may come back at once.
        if wanted.store is not False:
            for call_id, said in chain.from_iterable(each.called.items() for each in outbounds):
                context.recall.remember(owner, call_id, said)
        return [usage_chunk(shared, outbounds)]

    run = await choices.start(context.gateway, draft.plans, outbounds, completion_id, last_events)
    encode = encoder(include_usage=wanted.include_usage)
    return await respond(run, request, stream=bool(wanted.stream), encode=encode, fold=fold)
