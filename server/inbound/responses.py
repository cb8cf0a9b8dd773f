"""A Responses request as a plan, with what the store remembers of the conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from server import threads
from server.generation.plan import TurnPlan
from server.inbound.formats import read_format
from server.inbound.grammar import ConstraintRequest, Masking, constrained
from server.inbound.options import (
    Reasoning,
    read_priority,
    read_reasoning,
    read_sampling,
    read_stop,
    system_content,
    verbosity_hint,
)
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import Tools, read_tools
from server.replay import items
from server.replay.content import Policy
from server.replay.conversation import SEPARATOR, conversation
from server.replay.prior_turns import PriorTurns, read_prior_turns
from server.replay.response_turns import OutputUpToCall, as_said, call_ids
from server.replay.sealed_items import unsealed
from server.replay.sealing import Sealer
from server.schemas.base import refuse
from server.schemas.responses import CreateResponse
from server.store.responses.base import (
    Item,
    Store,
    StoredItem,
    StoredResponse,
    StoreUnavailable,
)

LOGPROBS = "message.output_text.logprobs"
UNSERVED = ("context_management", "moderation", "prompt")


@dataclass(frozen=True, slots=True)
class CompiledResponse:
    """A request that can be sampled, and what is stored beside its answer.

    input: the request's own items.
    """

    plan: TurnPlan
    tools: Tools
    past: PriorTurns
    input: tuple[StoredItem, ...]

    def started(self, owner: str, response: dict[str, Any]) -> StoredResponse:
        """What is kept of the response before its first token."""
        past = self.past
        return StoredResponse(
            owner,
            response,
            past.start_date,
            past.items,
            self.input,
            (),
            past.seen,
            detached=not past.kept,
        )


async def read(
    request: CreateResponse,
    store: Store,
    owner: str,
    *,
    today: str,
    masking: Masking,
    sealer: Sealer,
    unsupported: Policy = "placeholder",
    remembered: StoredResponse | None = None,
    generate: bool = True,
) -> CompiledResponse:
    """Compile a request. `today` is `YYYY-MM-DD`; a conversation keeps its first one.

    remembered: a previous response that is not in the store, or not with its history.
    generate: False for a response that says nothing; it may have no input.
    Raises InvalidRequest, and NotFound for a previous response or an item that `owner` lacks.
    """
    for name in UNSERVED:
        refuse(name, getattr(request, name))
    is_small = threads.is_small(request.input)
    given = await threads.run(partial(items.normalise, request.input), small=is_small)
    past = await read_prior_turns(request, store, owner, today=today, remembered=remembered)
    if generate and not given and not past.items:
        raise items.missing()
    known, output_up_to_call = await _remembered(request, given, store, owner)

    def compiled() -> CompiledResponse:
        behind = {**unsealed(given, partial(sealer.open, owner)), **known}
        resolved = items.resolve(given, behind, unsupported=unsupported)
        return _compile(request, past, as_said(resolved, output_up_to_call), masking)

    makes_grammar = request.tools or (request.text and request.text.format)
    stored = chain(past.items, known.values(), *output_up_to_call.values())
    gone_through = [*(one.item for one in stored), *_gone_through(request)]
    is_small = is_small and not makes_grammar and threads.is_small(gone_through)
    return await threads.run(compiled, small=is_small)


def _gone_through(request: CreateResponse) -> tuple[Any, ...]:
    """The fields of the request, beside the input, that may be large."""
    return request.instructions, request.logit_bias, request.tool_choice, request.stop


async def _remembered(
    request: CreateResponse, given: Sequence[Item], store: Store, owner: str
) -> tuple[Mapping[str, StoredItem], OutputUpToCall]:
    """What the store knows of the given items and calls; a stateless request can do without."""
    try:
        known = await store.items(owner, items.ids_in(request.input))
        # A call may come back as a reference.
        calls = call_ids([*given, *(stored.item for stored in known.values())])
        return known, await store.output_up_to_call(owner, calls)
    except StoreUnavailable:
        if request.store is not False or any(item["type"] == items.REFERENCE for item in given):
            raise
        return {}, {}


def _compile(
    request: CreateResponse,
    past: PriorTurns,
    given: tuple[StoredItem, ...],
    masking: Masking,
) -> CompiledResponse:
    history = past.items
    tools = read_tools(request.tools)
    choice = read_tool_choice(request.tool_choice, tools)
    form = read_format(request.text and request.text.format, "text.format")
    reasoning = _reasoning(request)
    plan = TurnPlan(
        conversation=conversation(
            system_content(reasoning.effort, past.start_date),
            items.messages(history, given),
            instructions=_instructions(request),
            all_reasoning=bool(request.reasoning and request.reasoning.context == "all_turns"),
            tools=tools.namespaces,
            formats=(form.told,) if form else (),
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
        priority=read_priority(request.priority, request.service_tier),
    )
    constraint_request = ConstraintRequest(
        tools,
        choice,
        form,
        reasoning.effort,
        reasoning.budget,
        enforce_unsaid=True,
        parallel_calls=request.parallel_tool_calls is not False,
        effort_param=reasoning.param,
    )
    return CompiledResponse(constrained(plan, constraint_request, masking), tools, past, given)


def _reasoning(request: CreateResponse) -> Reasoning:
    asked = request.reasoning
    said = {"effort": asked.effort, "max_tokens": asked.max_tokens} if asked else None
    return read_reasoning(said, max_tokens=request.max_output_tokens)


def _instructions(request: CreateResponse) -> str | None:
    hint = verbosity_hint(request.text.verbosity if request.text else None)
    return SEPARATOR.join(filter(None, (request.instructions, hint))) or None


def _top_logprobs(request: CreateResponse) -> int | None:
    if request.top_logprobs or LOGPROBS in (request.include or ()):
        return request.top_logprobs or 0
    return None
