"""Compiles Responses requests, with the stored items of the conversation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from harmony.messages import Message
from server import threads
from server.generation.plan import TurnPlan
from server.inbound.approvals import check_responses, given_responses, lost_tools
from server.inbound.compiled import CompileContext, CompiledRequest
from server.inbound.formats import AnswerFormat, read_format
from server.inbound.grammar import ConstraintRequest, constrain
from server.inbound.hosted import Sessions, hosted_entries, opened, opened_tools
from server.inbound.options import (
    Reasoning,
    biases_control,
    read_priority,
    read_reasoning,
    read_sampling,
    read_stop,
    read_summary,
    system_content,
    verbosity_hint,
)
from server.inbound.tool_choice import ToolChoice, read_tool_choice
from server.inbound.tools import Tools, read_tools
from server.replay import hosted_items, items
from server.replay.conversation import SEPARATOR, conversation
from server.replay.prior_turns import PriorTurns, read_prior_turns
from server.replay.response_turns import TurnsUpToCalls, call_ids, restore_turns
from server.replay.sealed_items import unseal_items
from server.schemas.base import refuse
from server.schemas.responses import CreateResponse
from server.schemas.responses import Reasoning as ReasoningOptions
from server.store.errors import StoreUnavailable
from server.store.items import Item, StoredItem, ToolState
from server.store.responses.base import StoredResponse
from server.summaries.base import Detail
from server.tools.base import AnsweredCall

T = TypeVar("T")

LOGPROBS = "message.output_text.logprobs"
UNSUPPORTED = ("context_management", "moderation", "prompt")

_FEW_ITEMS = 2_000
"""Items that one loop over them reads in less than a millisecond."""


@dataclass(frozen=True, slots=True)
class CompiledResponse(CompiledRequest):
    """A compiled Responses request, with what is stored with its answer.

    prior: the earlier turns. input: the request's own items. answered: calls of an earlier answer
    that the request approves or refuses. hidden: the answer leaves the reasoning out.
    tool_choice, answer_format: as they were read; None is plain text.
    """

    prior: PriorTurns
    input: tuple[StoredItem, ...]
    answered: tuple[AnsweredCall, ...] = field(default=(), kw_only=True)
    hidden: bool = field(default=False, kw_only=True)
    tool_choice: ToolChoice = field(default_factory=ToolChoice, kw_only=True)
    answer_format: AnswerFormat | None = field(default=None, kw_only=True)

    @property
    def plan(self) -> TurnPlan:
        """The only plan: this API makes one answer."""
        return self.plans[0]

    def started(self, owner: str, response: dict[str, Any]) -> StoredResponse:
        """The stored response, as it is before the first token."""
        prior = self.prior
        return StoredResponse(
            owner,
            response,
            prior.start_date,
            prior.items,
            self.input,
            (),
            prior.read_position,
            detached=not prior.in_store,
            tool_state=prior.tool_state,
        )


async def compile(request: CreateResponse, context: CompileContext) -> CompiledResponse:
    """Compile a request, with the stored items of the conversation.

    Raises InvalidRequest naming the field, and NotFound for a previous response or an item that
    the owner does not have, and the errors of opening hosted tools. An error closes their sessions.
    """
    for name in UNSUPPORTED:
        refuse(name, getattr(request, name))
    size = threads.size_of(request.input)
    received = await threads.run(partial(items.normalise, request.input), size)
    prior = await _prior_turns(request, received, context)
    known, turns_up_to_calls = await _stored(request, received, context)
    find = partial(hosted_entries, request.tools, context.tools)
    entries = await threads.run(find, threads.size_of(context.tools and request.tools))

    def restore() -> tuple[StoredItem, ...]:
        unsealed = unseal_items(received, context.sealed_input().open)
        resolved = items.resolve(received, {**unsealed, **known}, unsupported=context.unsupported)
        return restore_turns(resolved, turns_up_to_calls, prior.items)

    def work(sessions: tuple[Sessions, ...]) -> CompiledResponse:
        tools = read_tools(request.tools, hosted=opened_tools(entries, sessions[0]))
        compiled = _compile(request, prior, restored, items.paths_of(received), tools, context)
        return replace(compiled, sessions=sessions)

    stored = chain(prior.items, known.values(), *turns_up_to_calls.values())
    fields = request.instructions, request.logit_bias, request.tool_choice, request.stop
    large = [*(one.item for one in stored), *fields]
    size = max(size, threads.size_of(large))
    if request.tools or (request.text and request.text.format):  # their grammar takes time
        size = max(size, threads.Size.MEDIUM)
    restored = await threads.run(restore, size)
    find_hosted = partial(_hosted_items, prior.items, restored)
    answer = context.of_answer(
        request.include,
        stored=request.store is not False,
        states=prior.tool_state or _recalled(restored, context) if entries else {},
        history=await _over_items(find_hosted, prior.items, restored) if entries else (),
    )
    async with opened(entries, answer) as sessions:
        compiled = await threads.run(partial(work, sessions), size)
        return await _with_approvals(compiled, received, context)


async def _prior_turns(
    request: CreateResponse, received: Sequence[Item], context: CompileContext
) -> PriorTurns:
    """The turns that the request continues. Raises InvalidRequest for items that cannot follow."""
    prior = await read_prior_turns(
        request, context.store, context.owner, today=context.today, previous=context.previous
    )
    if not (received or prior.items or context.may_be_empty):
        raise items.missing()
    if context.is_new:
        items.refuse_long_history(received, prior.items)
        check = partial(items.refuse_equal_ids, received, prior.items)
        await _over_items(check, prior.items, received)
    return prior


async def _over_items(work: Callable[[], T], *lists: Sequence[Any]) -> T:
    """The result of `work`, a loop over items, which runs on a thread where they are many."""
    return await threads.run(work, threads.counted(sum(map(len, lists)), _FEW_ITEMS))


async def _with_approvals(
    compiled: CompiledResponse, sent: Sequence[Item], context: CompileContext
) -> CompiledResponse:
    """The request with the calls that it approves or refuses. sent: the items of the client."""
    if "mcp" not in context.tools or not context.is_new:
        return compiled
    earlier, received = compiled.prior.items, compiled.input
    find = partial(given_responses, earlier, received, sent)
    given = await _over_items(find, earlier, received)
    if not given:
        return compiled
    answered = await check_responses(given, compiled.sessions[0])
    plans = tuple(
        replace(plan, tools=(*plan.tools, *lost_tools(answered, plan.tools)))
        for plan in compiled.plans
    )
    return replace(compiled, plans=plans, answered=answered)


def _hosted_items(*lists: Sequence[StoredItem]) -> tuple[Item, ...]:
    """The items of hosted tools in the lists."""
    found = (stored.item for stored in chain(*lists))
    return tuple(item for item in found if item["type"] in hosted_items.TYPES)


def _recalled(restored: Sequence[StoredItem], context: CompileContext) -> ToolState:
    """The state of hosted tools after the last answer whose calls the input has.

    The client may have sent these calls, or only a call of its own that followed them.
    """
    calls = (stored.item for stored in reversed(restored))
    ids = (item["id"] for item in calls if item["type"] in hosted_items.CALLS)
    return context.recalled_states.find(context.owner, ids)


async def _stored(
    request: CreateResponse, received: Sequence[Item], context: CompileContext
) -> tuple[Mapping[str, StoredItem], TurnsUpToCalls]:
    """The items of the request that the server has, by id, and the turns up to its calls.

    Raises StoreUnavailable, except for a request that is not to be stored and has no references.
    """
    store, owner = context.store, context.owner
    hosted = (item["id"] for item in received if item["type"] in hosted_items.CALLS)
    recalled = context.recalled_calls.find(owner, hosted)
    try:
        known = {**recalled, **await store.items(owner, items.ids_in(request.input))}
        # A call may come back as a reference.
        calls = call_ids([*received, *(stored.item for stored in known.values())])
        return known, await store.turns_up_to_calls(owner, calls)
    except StoreUnavailable:
        if request.store is not False or any(item["type"] == items.REFERENCE for item in received):
            raise
        return recalled, {}


def _compile(
    request: CreateResponse,
    prior: PriorTurns,
    received: tuple[StoredItem, ...],
    paths: Mapping[str, str],
    tools: Tools,
    context: CompileContext,
) -> CompiledResponse:
    tool_choice = read_tool_choice(request.tool_choice, tools)
    answer_format = read_format(request.text and request.text.format, "text.format")
    reasoning = _reasoning(request)
    plan = TurnPlan(
        conversation=conversation(
            system_content(reasoning.effort, prior.start_date, tools.built_in),
            _messages(prior, received, paths, tools, context),
            instructions=_instructions(request),
            all_reasoning=bool(request.reasoning and request.reasoning.context == "all_turns"),
            tools=tools.namespaces,
            formats=(answer_format.declared,) if answer_format else (),
        ),
        tools=tools.declared,
        sampling=read_sampling(request),
        max_tokens=request.max_output_tokens,
        truncate=request.truncation == "auto",
        stop=read_stop(request.stop),
        seed=request.seed,
        top_logprobs=_top_logprobs(request),
        logprobs_param="top_logprobs" if request.top_logprobs else "include",
        effort=reasoning.effort,
        affinity=request.prompt_cache_key,
        cache_salt=context.cache_salt,
        priority=read_priority(request.priority, request.service_tier),
        max_tool_calls=request.max_tool_calls,
        summary=_summary(request, reasoning, context),
    )
    constraint_request = ConstraintRequest(
        tools,
        tool_choice,
        answer_format,
        reasoning.effort,
        reasoning.budget,
        enforce_by_default=True,
        parallel_calls=request.parallel_tool_calls is not False,
        effort_param=reasoning.param,
        biases_control=biases_control(plan.sampling),
    )
    plan = replace(plan, constraint=constrain(constraint_request, context.masking))
    return CompiledResponse(
        (plan,),
        tools,
        prior,
        received,
        hidden=reasoning.hidden,
        tool_choice=tool_choice,
        answer_format=answer_format,
    )


def _messages(
    prior: PriorTurns,
    received: tuple[StoredItem, ...],
    paths: Mapping[str, str],
    tools: Tools,
    context: CompileContext,
) -> list[Message]:
    return items.messages(
        prior.items,
        received,
        enabled=tools.enabled,
        paths=paths,
        reasoning_is_secret=context.hides_reasoning,
    )


def _reasoning(request: CreateResponse) -> Reasoning:
    value = request.reasoning
    names = ("effort", "max_tokens", "enabled", "exclude")
    fields = {name: getattr(value, name) for name in names} if value else None
    return read_reasoning(fields, max_tokens=request.max_output_tokens)


def _summary(
    request: CreateResponse, reasoning: Reasoning, context: CompileContext
) -> Detail | None:
    options = request.reasoning or ReasoningOptions()
    is_given = not options.model_fields_set.isdisjoint(("summary", "generate_summary"))
    value = options.summary or options.generate_summary
    return read_summary(value, context.summaries, reasoning, is_given=is_given)


def _instructions(request: CreateResponse) -> str | None:
    hint = verbosity_hint(request.text.verbosity if request.text else None)
    return SEPARATOR.join(filter(None, (request.instructions, hint))) or None


def _top_logprobs(request: CreateResponse) -> int | None:
    if request.top_logprobs or LOGPROBS in (request.include or ()):
        return request.top_logprobs or 0
    return None
