"""`POST /v1/completions`: raw prompts, to which no harmony is added.

Source: https://platform.openai.com/docs/api-reference/completions
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.generation import parallel_samples
from server.generation.runs import WireEvent
from server.http import json_body
from server.http.answers import respond
from server.http.authentication import authenticate
from server.ids import new_id
from server.inbound import legacy_completions
from server.outbound.chunks import encoder, head, usage_chunk
from server.outbound.hidden import refuse_where_hidden
from server.outbound.legacy_completions import CompletionOutbound, best, fold
from server.schemas.base import note_unknown
from server.schemas.legacy_completions import CreateCompletion

router = APIRouter()


@router.post("/v1/completions")
async def create_completion(request: Request) -> Response:
    """Sample completions of one or several prompts; streamed where the request says so."""
    authenticate(request)
    context = context_of(request)
    wanted = await json_body.parse(request, CreateCompletion)
    note_unknown(wanted, "Completions")
    model = context.model(wanted.model)
    refuse_where_hidden(context.settings, "A raw completion")
    info = context.gateway.backend.info
    compiled = await asyncio.to_thread(
        legacy_completions.compile, wanted, context_length=info.context_length
    )
    completion_id = new_id("cmpl")
    include_usage = wanted.stream_options is not None and bool(wanted.stream_options.include_usage)
    shared = head(
        "text_completion",
        completion_id,
        created=int(time.time()),
        model=model,
        include_usage=include_usage,
    )
    outbounds = [
        CompletionOutbound(shared, index=index, echo=echo, show_ids=bool(wanted.return_token_ids))
        for index, echo in enumerate(compiled.echoes)
    ]

    def last_events() -> list[WireEvent]:
        usages = [outbound.usage for outbound in outbounds]
        return [usage_chunk(shared, usages, per_prompt=compiled.best_of)]

    def fold_best(chunks: Sequence[WireEvent]) -> dict[str, Any]:
        shown = compiled.logprobs is not None
        return best(fold(chunks), n=compiled.n, best_of=compiled.best_of, logprobs=shown)

    run = await parallel_samples.start(
        context.gateway,
        compiled.plans,
        outbounds,
        completion_id,
        last_events,
        param="n" if compiled.best_of > 1 else "prompt",
    )
    encode = encoder(include_usage=include_usage)
    return await respond(
        run,
        request,
        stream=bool(wanted.stream),
        encode=encode,
        fold=fold_best,
        limit=context.settings.max_unread,
    )
