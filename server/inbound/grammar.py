"""Compiles a request's constraints into a grammar for the engine's masks.

The masks enforce the tool choice, strict tools, the answer format, the reasoning budget and the
effort `none`. A request that needs masks where there are none is refused with an error that names
the field.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Literal

import orjson
from cachetools import LRUCache, cached

from harmony.grammar import (
    Body,
    CallableTool,
    GrammarSpec,
    InvalidConstraint,
    RegexText,
    SchemaJson,
    answer_grammar,
    final_headers,
    reasoned_grammar,
)
from harmony.messages import Effort
from server.errors import InvalidRequest
from server.generation.plan import NO_CONSTRAINT, Constraint
from server.inbound.constraints import (
    BodyConstraint,
    answer_constraint,
    compile_spec,
    hosted_constraint,
    input_constraint,
    is_own,
)
from server.inbound.formats import AnswerFormat
from server.inbound.tool_choice import ToolChoice
from server.inbound.tools import Tool, Tools
from server.schemas.fields import invalid
from server.store.memory_size import size_of_json

COMPILE_SECONDS = 2.0
"""Seconds to find out which of a request's schemas does not compile."""

_MAX_CACHED_BYTES = 1 << 16
_CACHE_BYTES = 1 << 26
_ENTRY_BYTES = 1 << 11
"""The overhead of an entry: its key, and objects of constant size."""


@dataclass(frozen=True, slots=True)
class Masking:
    """When grammars are used.

    when: `always` constrains all requests, plain conversations to legal harmony. `needed`
    constrains those with tools, a format, a reasoning budget, effort `none` or a bias of control
    tokens. `never` refuses requests that need a grammar.
    available: whether the engine can mask tokens.
    parallel_calls: a call does not end the turn, unless the request sets `parallel_tool_calls` to
    false. gpt-oss was trained to stop after a call.
    """

    when: Literal["always", "needed", "never"] = "needed"
    available: bool = True
    parallel_calls: bool = False

    @property
    def is_off(self) -> bool:
        """Whether no request gets a grammar."""
        return self.when == "never" or not self.available


@dataclass(frozen=True, slots=True)
class ConstraintRequest:
    """The constraints of a request.

    effort: None for no reasoning. budget: the most tokens of reasoning, >= 1, None for no limit.
    enforce_by_default: whether schemas of tools without `strict` are enforced where they compile.
    parallel_calls: whether a turn may make several calls.
    effort_param: the request's field that sets the effort.
    biases_control: whether control tokens have a bias. Without a grammar, each token of the answer
    could then be a message of its own.
    """

    tools: Tools
    tool_choice: ToolChoice
    answer_format: AnswerFormat | None = None
    effort: Effort | None = Effort.MEDIUM
    budget: int | None = None
    enforce_by_default: bool = False
    parallel_calls: bool = True
    effort_param: str = "reasoning.effort"
    biases_control: bool = False

    @property
    def callable(self) -> tuple[Tool, ...]:
        """The client's tools that may be called."""
        served = self.tools.served
        return tuple(tool for tool in served if self._may_call(tool.declared.recipient))

    @property
    def hosted(self) -> tuple[CallableTool, ...]:
        """What may be called of the hosted tools."""
        return tuple(call for call in self.tools.hosted_calls if self._may_call(call.recipient))

    def _may_call(self, recipient: str) -> bool:
        choice = self.tool_choice
        return choice.mode != "none" and (choice.allowed is None or recipient in choice.allowed)


def constrain(request: ConstraintRequest, masking: Masking) -> Constraint:
    """Compile the constraints of a request. It may take seconds: call it off the event loop.

    Equal requests are compiled once. Raises InvalidRequest naming a field that cannot be enforced.
    """
    param = next(_params_that_need_masks(request), None)
    if masking.is_off:
        if param is not None:
            raise InvalidRequest(
                f"'{param}' cannot be enforced here: sampling is not constrained.",
                param=param,
                code="unsupported_parameter",
            )
        return Constraint(prefill=_prefill(request))
    if masking.when == "needed" and not _needs_grammar(request, param):
        return NO_CONSTRAINT
    # A call of a hosted tool ends the sampling: its result comes before anything else.
    parallel_calls = masking.parallel_calls and request.parallel_calls and not request.hosted
    return _constrain_cached(request, parallel_calls)


def answer_only(masking: Masking) -> Constraint:
    """Allow reasoning and then a final message that is not blank: no calls and no preambles.

    Where there are no masks, nothing is enforced.
    """
    if masking.is_off:
        return NO_CONSTRAINT
    return Constraint.of(GrammarSpec(answer=RegexText(r"\S(.|\n)*"), preambles=False))


def _needs_grammar(request: ConstraintRequest, param: str | None) -> bool:
    """Whether `needed` constrains the request. param: a field that only masks can enforce."""
    may_call = request.callable or request.hosted
    return bool(param or may_call or request.effort is None or request.biases_control)


def _prefill(request: ConstraintRequest) -> tuple[int, ...]:
    """The header of the final message, where no other message is allowed."""
    may_call = request.callable or request.hosted
    return final_headers()[0] if request.effort is None and not may_call else ()


def _params_that_need_masks(request: ConstraintRequest) -> Iterator[str]:
    """The request's fields that only masks can enforce."""
    choice = request.tool_choice
    if request.tools.can_be_called and (choice.mode != "auto" or choice.allowed is not None):
        yield choice.param
    if request.answer_format is not None:
        yield request.answer_format.param
    if request.budget is not None:
        yield "reasoning.max_tokens"
    if request.effort is None and (request.callable or request.hosted):
        yield request.effort_param
    for tool in request.callable:
        if tool.strict:
            yield f"{tool.param}.strict"
        if tool.input_grammar is not None:
            yield f"{tool.param}.format"


class _OutOfTime(Exception):
    """Optional constraints were dropped for lack of time. The result must not be cached."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__("the request's schemas take too long to compile")
        self.constraint = constraint


def _constrain_cached(request: ConstraintRequest, parallel_calls: bool) -> Constraint:
    try:
        content = _cache_content(request)
    except TypeError:  # nested too deep, or a number that orjson cannot write
        content = None
    try:
        if content is None or len(content) > _MAX_CACHED_BYTES:
            return _compile(request, parallel_calls)
        return _compile_cached(request, parallel_calls, content)
    except _OutOfTime as error:
        return error.constraint


def _cache_content(request: ConstraintRequest) -> bytes:
    """Equal requests have equal bytes. Of hosted tools it has only what a grammar depends on."""
    calls = [(call.recipient, type(call.body).__name__, call.body) for call in request.hosted]
    without = replace(request, tools=replace(request.tools, hosted=()))
    return orjson.dumps((without, calls), default=sorted)


def _cache_key(
    request: ConstraintRequest, parallel_calls: bool, content: bytes
) -> tuple[bytes, bool]:
    """Without the request, which holds all that the hosted tools declare, of any size."""
    return hashlib.sha256(content).digest(), parallel_calls


def _size(constraint: Constraint) -> int:
    """The memory of a cached constraint, in bytes.

    A schema is kept as the objects that it was parsed to, which may take thirty times the bytes of
    its text.
    """
    spec = constraint.spec
    grammars = (constraint.grammar, constraint.answer_grammar, constraint.reasoned_grammar)
    bodies = () if spec is None else (spec.answer, *(tool.body for tool in spec.tools))
    schemas = [body.schema for body in bodies if isinstance(body, SchemaJson)]
    return _ENTRY_BYTES + size_of_json([*grammars, *schemas])


@cached(LRUCache(_CACHE_BYTES, getsizeof=_size), key=_cache_key, lock=Lock())
def _compile_cached(request: ConstraintRequest, parallel_calls: bool, content: bytes) -> Constraint:
    return _compile(request, parallel_calls)


def _compile(request: ConstraintRequest, parallel_calls: bool) -> Constraint:
    (spec, turn, answer), in_time = _compile_grammars(request, parallel_calls)
    prefill = _prefill(request)
    constraint = Constraint(
        grammar=answer if prefill else turn,
        answer_grammar=answer,
        reasoned_grammar=reasoned_grammar(spec),
        prefill=prefill,
        parallel_calls=parallel_calls and bool(spec.tools),
        own_grammar=any(map(is_own, (spec.answer, *_client_bodies(request, spec)))),
        spec=spec,
    )
    if not in_time:
        raise _OutOfTime(constraint)
    return constraint


def _client_bodies(request: ConstraintRequest, spec: GrammarSpec) -> Iterator[Body]:
    """The constraints on calls of the client's tools, which come before hosted ones."""
    return (tool.body for tool in spec.tools[: len(request.callable)])


_Compiled = tuple[GrammarSpec, str, str]
"""A spec, and the Lark texts of its turn and of its answer alone."""


def _compile_grammars(request: ConstraintRequest, parallel_calls: bool) -> tuple[_Compiled, bool]:
    """The part of the request that compiles, and whether there was enough time.

    All constraints are compiled together. If that fails, each is compiled by itself. If those that
    compile fail together, only the required ones are used.
    """
    tools = request.callable
    bodies = [
        input_constraint(tool, enforce_by_default=request.enforce_by_default) for tool in tools
    ]
    bodies += map(hosted_constraint, request.hosted)
    bodies.append(answer_constraint(request.answer_format))
    spec = _spec(request, [each.body for each in bodies], parallel_calls)
    with suppress(InvalidConstraint):
        return _compiled(spec), True
    deadline = time.monotonic() + COMPILE_SECONDS
    enforceable = _enforceable(bodies, deadline)
    in_time = time.monotonic() < deadline
    spec = _spec(request, enforceable, parallel_calls)
    with suppress(InvalidConstraint):
        return _compiled(spec), in_time
    spec = _spec(request, [each.minimum for each in bodies], parallel_calls)
    try:
        return _compiled(spec), in_time
    except InvalidConstraint as problem:
        param = (
            request.tools.param
            if tools or request.answer_format is None
            else request.answer_format.param
        )
        raise invalid(param, f"it cannot be enforced: {problem}", "invalid_grammar") from problem


def _compiled(spec: GrammarSpec) -> _Compiled:
    """Raises InvalidConstraint, for an answer that is no part of the turn, too."""
    return spec, compile_spec(spec), answer_grammar(spec)


def _enforceable(constraints: Sequence[BodyConstraint], deadline: float) -> list[Body]:
    """The enforceable body of each constraint.

    Required ones are compiled first, so that optional ones cannot use up their time.
    """
    bodies = [each.body for each in constraints]
    order = sorted(range(len(bodies)), key=lambda index: constraints[index].required_by is None)
    for index in order:
        bodies[index] = constraints[index].enforceable(in_time=time.monotonic() < deadline)
    return bodies


def _spec(request: ConstraintRequest, bodies: Sequence[Body], parallel_calls: bool) -> GrammarSpec:
    *inputs, answer = bodies
    recipients = [
        *(tool.declared.recipient for tool in request.callable),
        *(call.recipient for call in request.hosted),
    ]
    return GrammarSpec(
        tools=tuple(CallableTool(*one) for one in zip(recipients, inputs, strict=True)),
        call_required=request.tool_choice.mode == "required",
        answer=answer,
        reasoning=request.effort is not None,
        reasoning_budget=request.budget,
        parallel_calls=parallel_calls,
    )
