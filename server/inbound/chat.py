"""Compiles Chat Completions requests."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from harmony.messages import Message
from server import threads
from server.generation.plan import TurnPlan
from server.inbound.compiled import CompileContext, CompiledRequest
from server.inbound.formats import read_format
from server.inbound.grammar import ConstraintRequest, constrain
from server.inbound.hosted import Sessions, opened, opened_tools
from server.inbound.hosted_chat import WEB_SEARCH, chat_entries, web_plugins
from server.inbound.options import (
    Reasoning,
    biases_control,
    derived_seed,
    read_priority,
    read_reasoning,
    read_sampling,
    read_stop,
    read_summary,
    system_content,
    verbosity_hint,
)
from server.inbound.tool_choice import ToolChoice, read_tool_choice
from server.inbound.tools import OpenedTool, Tools, read_tools
from server.replay.content import refuse_unreadable
from server.replay.conversation import conversation
from server.replay.messages import NO_CALLS, MessagesUpToCall, call_ids, read_messages
from server.schemas.base import refuse
from server.schemas.chat import CreateChatCompletion
from server.schemas.fields import array, invalid, mapping
from server.store.errors import StoreUnavailable
from server.summaries.base import Detail

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompiledChat(CompiledRequest):
    """A compiled Chat Completions request.

    hidden: the answer leaves the reasoning out. legacy: calls are in the deprecated field
    `function_call`. json: the answer is JSON.
    """

    hidden: bool = False
    legacy: bool = False
    json: bool = False


async def compile(request: CreateChatCompletion, context: CompileContext) -> CompiledChat:
    """Compile a request, with the sampled messages of the calls in it.

    Raises InvalidRequest naming the field, and the errors of opening hosted tools. An error closes
    their sessions.
    """
    named = [request.tools, request.web_search_options, request.plugins]
    find = partial(chat_entries, request, context.tools)
    entries = await threads.run(find, threads.size_of(context.tools and named))
    # Nothing is looked up for a request that is not to be stored.
    messages = None if request.store is False else request.messages
    ids = await threads.run(partial(call_ids, messages), threads.size_of(messages))
    messages_up_to_call = await _messages_up_to_calls(ids, context)

    def work(sessions: tuple[Sessions, ...]) -> CompiledChat:
        hosted = opened_tools(entries, sessions[0])
        compiled = _compile(request, context, messages_up_to_call, hosted)
        plans = compiled.plans
        if entries:
            plans = tuple(
                _with_sessions(plan, compiled.tools, opened_tools(entries, each))
                for plan, each in zip(plans, sessions, strict=True)
            )
        return replace(compiled, plans=plans, sessions=sessions)

    makes_grammar = request.tools or request.functions or request.response_format
    large = [request.messages, request.logit_bias, request.tool_choice, request.function_call]
    size = threads.size_of([*large, request.reasoning, request.stop])
    if entries or makes_grammar:
        size = max(size, threads.Size.MEDIUM)
    states = context.recalled_states.find(context.owner, reversed(ids)) if entries else {}
    answer = context.of_answer(request.include, stored=bool(request.store), states=states)
    async with opened(entries, answer, request.n or 1) as sessions:
        return await threads.run(partial(work, sessions), size)


def _with_sessions(plan: TurnPlan, tools: Tools, hosted: Sequence[OpenedTool]) -> TurnPlan:
    """The plan with the declarations of the hosted tools that its own answer opened."""
    return replace(plan, tools=replace(tools, hosted=tuple(hosted)).declared)


async def _messages_up_to_calls(ids: Sequence[str], context: CompileContext) -> MessagesUpToCall:
    """The sampled messages up to each call with one of the ids, as far as the server has them.

    While the store is unavailable, only this process's memory is used.
    """
    if not ids:
        return NO_CALLS
    recalled = context.recall.find(context.owner, ids)
    try:
        completions = context.store.chat_completions
        return recalled | await completions.messages_up_to_call(context.owner, ids)
    except StoreUnavailable as error:
        logger.warning("the messages before calls cannot be looked up: %s", error)
        return recalled


def _compile(
    request: CreateChatCompletion,
    context: CompileContext,
    messages_up_to_call: MessagesUpToCall,
    hosted: Sequence[OpenedTool],
) -> CompiledChat:
    _refuse_unsupported(request, context)
    if context.unsupported == "error":
        refuse_unreadable(request.messages, "messages")
    legacy = _is_legacy(request)
    tools = _legacy_tools(request.functions, hosted) if legacy else _tools(request, hosted)
    tool_choice = _tool_choice(request, tools)
    max_tokens = request.max_completion_tokens or request.max_tokens
    reasoning = read_reasoning(
        request.reasoning,
        effort=request.reasoning_effort,
        include=request.include_reasoning,
        max_tokens=max_tokens,
    )
    answer_format = read_format(request.response_format, "response_format")
    plan = TurnPlan(
        conversation=conversation(
            system_content(reasoning.effort, context.today, tools.built_in),
            _messages(
                request, context, messages_up_to_call, json_content=answer_format is not None
            ),
            instructions=verbosity_hint(request.verbosity),
            tools=tools.namespaces,
            formats=(answer_format.declared,) if answer_format else (),
        ),
        tools=tools.declared,
        sampling=read_sampling(request),
        max_tokens=max_tokens,
        stop=read_stop(request.stop),
        top_logprobs=_top_logprobs(request),
        effort=reasoning.effort,
        affinity=request.prompt_cache_key,
        cache_salt=context.cache_salt,
        priority=read_priority(request.priority, request.service_tier),
        max_tool_calls=request.max_tool_calls,
        summary=_summary(request, reasoning, context),
        prompt_param="messages",
        logprobs_param="top_logprobs" if request.top_logprobs else "logprobs",
    )
    constraint_request = ConstraintRequest(
        tools,
        tool_choice,
        answer_format,
        reasoning.effort,
        reasoning.budget,
        parallel_calls=request.parallel_tool_calls is not False,
        effort_param=reasoning.param,
        biases_control=biases_control(plan.sampling),
    )
    plan = replace(plan, constraint=constrain(constraint_request, context.masking))
    plans = _seeded_plans(request, plan)
    return CompiledChat(plans, tools, reasoning.hidden, legacy, answer_format is not None)


def _messages(
    request: CreateChatCompletion,
    context: CompileContext,
    messages_up_to_call: MessagesUpToCall,
    *,
    json_content: bool,
) -> list[Message]:
    return read_messages(
        request.messages,
        messages_up_to_call=messages_up_to_call,
        unseal=context.sealed_input().open,
        json_content=json_content,
        reasoning_is_secret=context.hides_reasoning,
    )


def _summary(
    request: CreateChatCompletion, reasoning: Reasoning, context: CompileContext
) -> Detail | None:
    options = request.reasoning or {}
    return read_summary(
        options.get("summary"), context.summaries, reasoning, is_given="summary" in options
    )


def _seeded_plans(request: CreateChatCompletion, plan: TurnPlan) -> tuple[TurnPlan, ...]:
    seeds = (derived_seed(request.seed, index) for index in range(request.n or 1))
    return tuple(replace(plan, seed=seed) for seed in seeds)


def _refuse_unsupported(request: CreateChatCompletion, context: CompileContext) -> None:
    refuse("moderation", request.moderation)
    # An empty object selects the defaults, and is not the same as null.
    refuse("audio", request.audio is not None)
    can_search = WEB_SEARCH in context.tools
    refuse("web_search_options", request.web_search_options is not None and not can_search)
    if set(request.modalities or ()) - {"text"}:
        refuse("modalities", request.modalities)


def _is_legacy(request: CreateChatCompletion) -> bool:
    """Whether the request uses the deprecated `functions` in place of `tools`."""
    if request.tools and request.functions:
        raise invalid("functions", "expected 'functions' or 'tools', not both")
    return request.tools in (None, []) and request.functions is not None


def _tools(request: CreateChatCompletion, hosted: Sequence[OpenedTool]) -> Tools:
    tools = read_tools(request.tools, hosted=hosted)
    opened_fields = {tool.param for tool in hosted}
    if all(where in opened_fields for where, _ in web_plugins(request)):
        return tools
    return replace(tools, unserved_kinds=tuple(dict.fromkeys([*tools.unserved_kinds, WEB_SEARCH])))


def _legacy_tools(value: Any, hosted: Sequence[OpenedTool]) -> Tools:
    functions = [
        {**mapping(item, f"functions.{index}"), "type": "function"}
        for index, item in enumerate(array(value, "functions"))
    ]
    return read_tools(functions, "functions", hosted)


def _tool_choice(request: CreateChatCompletion, tools: Tools) -> ToolChoice:
    legacy = request.function_call
    if request.tool_choice is not None or legacy is None:
        return read_tool_choice(request.tool_choice, tools)
    if legacy == "required":
        raise invalid("function_call", "expected 'none', 'auto' or an object with a name")
    named = {**legacy, "type": "function"} if isinstance(legacy, dict) else legacy
    return read_tool_choice(named, tools, "function_call")


def _top_logprobs(request: CreateChatCompletion) -> int | None:
    if request.logprobs:
        return request.top_logprobs or 0
    if request.top_logprobs:
        raise invalid("top_logprobs", "it needs 'logprobs' to be true")
    return None
