"""A Chat Completions request as a plan."""

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from server import threads
from server.errors import InvalidRequest
from server.generation.plan import TurnPlan
from server.inbound.compiled import CompileContext, CompiledRequest
from server.inbound.formats import read_format
from server.inbound.grammar import ConstraintRequest, constrained
from server.inbound.options import (
    derived_seed,
    read_priority,
    read_reasoning,
    read_sampling,
    read_stop,
    system_content,
    verbosity_hint,
)
from server.inbound.tool_choice import ToolChoice, read_tool_choice
from server.inbound.tools import Tools, read_tools
from server.replay.content import refuse_left_out
from server.replay.conversation import conversation
from server.replay.messages import NOTHING, Known, call_ids, read_messages
from server.schemas.base import refuse
from server.schemas.chat import CreateChatCompletion
from server.schemas.fields import array, invalid, mapping
from server.store.responses.base import StoreUnavailable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompiledChat(CompiledRequest):
    """A chat request that can be sampled.

    hidden: the client does not want to see the reasoning. legacy: calls are answered in the
    deprecated `function_call`. json: the answer is JSON.
    """

    hidden: bool = False
    legacy: bool = False
    json: bool = False


async def compile(request: CreateChatCompletion, context: CompileContext) -> CompiledChat:
    """Compile a request, with what the server remembers of the calls in it.

    Raises InvalidRequest naming the field.
    """
    work = partial(_compile, request, context, await _messages_up_to_calls(request, context))
    makes_grammar = request.tools or request.functions or request.response_format
    large = [request.messages, request.logit_bias, request.tool_choice, request.function_call]
    is_small = threads.is_small([*large, request.reasoning, request.stop])
    return await threads.run(work, small=is_small and not makes_grammar)


async def _messages_up_to_calls(request: CreateChatCompletion, context: CompileContext) -> Known:
    """What the model said up to the calls that the messages hold, where the server has it.

    A request that is not to be stored does without, as does any while the store is unavailable.
    """
    is_small = threads.is_small(request.messages)
    ids = await threads.run(partial(call_ids, request.messages), small=is_small)
    if not ids or request.store is False:
        return NOTHING
    recalled = context.recall.find(context.owner, ids)
    try:
        return {
            **recalled,
            **await context.store.chat_completions.messages_up_to_call(context.owner, ids),
        }
    except StoreUnavailable as error:
        logger.warning("what was said before calls cannot be looked up: %s", error)
        return recalled


def _compile(request: CreateChatCompletion, context: CompileContext, known: Known) -> CompiledChat:
    _refuse_unserved(request)
    if context.unsupported == "error":
        refuse_left_out(request.messages, "messages")
    legacy = _is_legacy(request)
    tools = _legacy_tools(request.functions) if legacy else read_tools(request.tools)
    choice = _tool_choice(request, tools)
    max_tokens = request.max_completion_tokens or request.max_tokens
    reasoning = read_reasoning(
        request.reasoning,
        effort=request.reasoning_effort,
        include=request.include_reasoning,
        max_tokens=max_tokens,
    )
    form = read_format(request.response_format, "response_format")
    unseal = partial(context.sealer.open, context.owner)
    plan = TurnPlan(
        conversation=conversation(
            system_content(reasoning.effort, context.today),
            read_messages(request.messages, known=known, unseal=unseal),
            instructions=verbosity_hint(request.verbosity),
            tools=tools.namespaces,
            formats=(form.told,) if form else (),
        ),
        tools=tools.declared,
        sampling=read_sampling(request),
        max_tokens=max_tokens,
        stop=read_stop(request.stop),
        top_logprobs=_top_logprobs(request),
        effort=reasoning.effort,
        affinity=request.prompt_cache_key,
        priority=read_priority(request.priority, request.service_tier),
        prompt_param="messages",
        logprobs_param="top_logprobs" if request.top_logprobs else "logprobs",
    )
    constraint_request = ConstraintRequest(
        tools,
        choice,
        form,
        reasoning.effort,
        reasoning.budget,
        parallel_calls=request.parallel_tool_calls is not False,
        effort_param=reasoning.param,
    )
    plans = _choices(request, constrained(plan, constraint_request, context.masking))
    return CompiledChat(plans, tools, reasoning.hidden, legacy, form is not None)


def _choices(request: CreateChatCompletion, plan: TurnPlan) -> tuple[TurnPlan, ...]:
    seeds = (derived_seed(request.seed, choice) for choice in range(request.n or 1))
    return tuple(replace(plan, seed=seed) for seed in seeds)


def _refuse_unserved(request: CreateChatCompletion) -> None:
    refuse("moderation", request.moderation)
    for field in ("audio", "web_search_options"):
        # An empty object asks for them with all defaults.
        refuse(field, getattr(request, field) is not None)
    if set(request.modalities or ()) - {"text"}:
        refuse("modalities", request.modalities)


def _is_legacy(request: CreateChatCompletion) -> bool:
    """Whether the tools are the deprecated `functions`."""
    if request.tools and request.functions:
        raise invalid("functions", "expected 'functions' or 'tools', not both")
    return request.tools in (None, []) and request.functions is not None


def _legacy_tools(value: Any) -> Tools:
    functions = [
        {**mapping(item, f"functions.{index}"), "type": "function"}
        for index, item in enumerate(array(value, "functions"))
    ]
    return read_tools(functions, "functions")


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
        raise InvalidRequest(
            "Invalid value for 'top_logprobs': it needs 'logprobs' to be true.",
            param="top_logprobs",
        )
    return None
