"""`POST /v1/chat/completions`.

Source: https://platform.openai.com/docs/api-reference/chat
"""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import Context, context_of
from server.generation import parallel_samples
from server.generation.answer_spec import AnswerSpec
from server.generation.runs import WireEvent
from server.http.answers.answer import respond
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.ids import new_id
from server.inbound import chat
from server.inbound.chat import CompiledChat
from server.inbound.echoed_tools import echoed_tools
from server.inbound.options import effective_tier
from server.outbound.chat.chunks import ChatOutbound, ChatRenderOptions
from server.outbound.chat.fields import chunk_fields, encoder, usage_chunk
from server.outbound.chat.fold import fold
from server.outbound.chat.stored import stored_chat_completion
from server.outbound.citations import CitationRewriter, log_dropped, rewriters
from server.outbound.hosted_usage import server_tool_use
from server.outbound.raw_reasoning import refuse_if_reasoning_hidden
from server.outbound.usage import summary_usage
from server.persistence.completion_journal import ChatCompletionJournal
from server.replay.sealed_items import INCLUDE
from server.responses.response_object import UNSERVED_TOOLS_FIELD
from server.schemas.base import note_unknown
from server.schemas.chat import CreateChatCompletion
from server.store.chat_completions.base import StoredChatCompletion
from server.store.items import SampledTurn
from server.tools.base import ToolSession, tool_state

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    """Create a completion, as a stream if the request asks for one."""
    owner = owner_of(request)
    context = context_of(request)
    body = await json_body.parse(request, CreateChatCompletion)
    note_unknown(body, "Chat")
    model = context.model(body.model)
    if body.return_token_ids:
        refuse_if_reasoning_hidden(context.settings, "'return_token_ids'", param="return_token_ids")
    completion_id = new_id("chatcmpl")
    compiled = await chat.compile(body, context.compiling(owner, completion_id))
    shared = chunk_fields(
        "chat.completion.chunk",
        completion_id,
        created=int(time.time()),
        model=model,
        include_usage=body.include_usage,
        service_tier=effective_tier(body.priority, body.service_tier),
    )
    outbounds = _outbounds(compiled, shared, _render_options(body, compiled, context, owner))

    def last_events() -> list[WireEvent]:
        # Done before the last chunk is sent: the client's next request may follow at once.
        if body.store is None:
            for turn in _turns(outbounds):
                context.recall.remember(owner, turn)
        if body.store is not False:
            _remember_states(context, owner, outbounds, compiled.sessions)
        log_dropped(completion_id, sum(outbound.dropped_citations for outbound in outbounds))
        usages = [outbound.usage for outbound in outbounds]
        more = server_tool_use([outbound.call_counter for outbound in outbounds])
        last = usage_chunk(shared, usages, per_prompt=len(usages), more=more)
        return [{**last, **summary_usage(outbound.summaries for outbound in outbounds)}]

    def stored_form(completion: dict[str, Any]) -> StoredChatCompletion:
        tools = echoed_tools(body.tools, compiled.tools)
        return stored_chat_completion(body, tools, completion, _turns(outbounds), owner)

    journal = ChatCompletionJournal(
        context.store.chat_completions, stored_form, retry=context.retry
    )
    choices = [
        AnswerSpec(plan, outbound, completion_id, sessions=sessions)
        for plan, outbound, sessions in zip(
            compiled.plans, outbounds, compiled.sessions, strict=True
        )
    ]
    run = await parallel_samples.start(
        context.gateway, choices, last_events, journal=journal if body.store else None
    )
    feed = context.feed(run, encoder(include_usage=body.include_usage))
    return await respond(feed, request, stream=bool(body.stream), fold=fold)


def _remember_states(
    context: Context,
    owner: str,
    outbounds: Sequence[ChatOutbound],
    sessions: Sequence[Sequence[ToolSession]],
) -> None:
    """Remember the states of tools after each choice whose calls the next prompt repeats."""
    for outbound, opened in zip(outbounds, sessions, strict=True):
        state = tool_state(opened)
        if state and (turn := outbound.turn) is not None:
            context.recalled_states.remember(owner, [*turn.ends][-1], state)


def _render_options(
    body: CreateChatCompletion, compiled: CompiledChat, context: Context, owner: str
) -> ChatRenderOptions:
    settings = context.settings
    hidden_by_server = settings.hides_reasoning
    requested = (body.reasoning is not None or bool(body.include_reasoning)) and not compiled.hidden
    sealed = (requested and hidden_by_server) or INCLUDE in (body.include or ())
    return ChatRenderOptions(
        hide_reasoning=compiled.hidden or hidden_by_server,
        alias=settings.reasoning_content,
        legacy=compiled.legacy,
        json=compiled.json,
        show_ids=bool(body.return_token_ids),
        seal=partial(context.sealer.seal, owner) if sealed else None,
    )


def _outbounds(
    compiled: CompiledChat, shared: dict[str, Any], options: ChatRenderOptions
) -> list[ChatOutbound]:
    """What makes the chunks of each choice. shared: the fields that all chunks have."""
    unserved = list(compiled.tools.unserved_kinds)
    first_chunk_fields = {UNSERVED_TOOLS_FIELD: unserved} if unserved else {}
    return [
        ChatOutbound(
            shared,
            plan,
            options,
            index=index,
            first_chunk_fields=first_chunk_fields,
            citations=_citations(sessions, json=compiled.json),
        )
        for index, (plan, sessions) in enumerate(
            zip(compiled.plans, compiled.sessions, strict=True)
        )
    ]


def _citations(sessions: Sequence[ToolSession], *, json: bool) -> CitationRewriter | None:
    """What rewrites the citation markers of a choice."""
    rewriter = rewriters(sessions, json=json)
    return None if rewriter is None else rewriter()


def _turns(outbounds: Iterable[ChatOutbound]) -> tuple[SampledTurn, ...]:
    return tuple(turn for outbound in outbounds if (turn := outbound.turn) is not None)
