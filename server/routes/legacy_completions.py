"""`POST /v1/completions`: raw prompts, without harmony's tokens.

Source: https://platform.openai.com/docs/api-reference/completions
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import threads
from server.context import context_of
from server.generation import parallel_samples
from server.generation.answer_spec import AnswerSpec
from server.generation.runs import WireEvent
from server.http.answers.answer import respond
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.ids import new_id
from server.inbound import legacy_completions
from server.outbound.chat.fields import chunk_fields, encoder, usage_chunk
from server.outbound.chat.legacy_completions import LegacyCompletionOutbound, fold, select_best
from server.outbound.raw_reasoning import refuse_if_reasoning_hidden
from server.schemas.base import note_unknown
from server.schemas.legacy_completions import CreateCompletion

router = APIRouter()


@router.post("/v1/completions")
async def create_completion(request: Request) -> Response:
    """Create completions of one or more prompts, as a stream if the request asks for one."""
    context = context_of(request)
    body = await json_body.parse(request, CreateCompletion)
    note_unknown(body, "Completions")
    model = context.model(body.model)
    refuse_if_reasoning_hidden(context.settings, "A raw completion")
    compiling = partial(
        legacy_completions.compile,
        body,
        context_length=context.context_length,
        cache_salt=context.cache_salt(owner_of(request)),
    )
    size = max(threads.size_of(body.prompt), threads.Size.MEDIUM)
    compiled = await threads.run(compiling, size)
    completion_id = new_id("cmpl")
    include_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    shared = chunk_fields(
        "text_completion",
        completion_id,
        created=int(time.time()),
        model=model,
        include_usage=include_usage,
    )
    outbounds = [
        LegacyCompletionOutbound(
            shared, index=index, echo=echo, show_ids=bool(body.return_token_ids)
        )
        for index, echo in enumerate(compiled.echoes)
    ]

    def last_events() -> list[WireEvent]:
        usages = [outbound.usage for outbound in outbounds]
        return [usage_chunk(shared, usages, per_prompt=compiled.best_of)]

    def fold_and_select(chunks: Sequence[WireEvent]) -> dict[str, Any]:
        shown = body.logprobs is not None
        return select_best(fold(chunks), n=compiled.n, best_of=compiled.best_of, logprobs=shown)

    choices = [
        AnswerSpec(plan, outbound, completion_id)
        for plan, outbound in zip(compiled.plans, outbounds, strict=True)
    ]
    run = await parallel_samples.start(
        context.gateway,
        choices,
        last_events,
        param="n" if compiled.best_of > 1 else "prompt",
        per_prompt=compiled.best_of,
    )
    feed = context.feed(run, encoder(include_usage=include_usage))
    return await respond(feed, request, stream=bool(body.stream), fold=fold_and_select)
