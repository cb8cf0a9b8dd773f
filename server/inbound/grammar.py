"""What a request lets the model sample, as a grammar for the engine's masks.

Tool choice, strict tools, answer formats, the reasoning budget and effort `none` are enforced, not
asked for; what cannot be is refused with the field that wants it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import orjson

from harmony.grammar import (
    Body,
    CallableTool,
    GrammarSpec,
    InvalidConstraint,
    LarkText,
    RegexText,
    answer_grammar,
    final_headers,
    turn_grammar,
)
from harmony.messages import Effort
from server.errors import InvalidRequest
from server.generation.plan import TurnPlan
from server.inbound.constraints import (
    BodyConstraint,
    answer_constraint,
    compiling,
    input_constraint,
)
from server.inbound.formats import AnswerFormat
from server.inbound.tool_choice import ToolChoice
from server.inbound.tools import Tool, Tools
from server.schemas.fields import invalid

SETTLE_SECONDS = 2.0
"""How long may be spent on finding out which of a request's schemas does not compile."""

_MAX_KEPT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Masking:
    """When grammars are used. available: whether the engine can mask.

    when: `always` holds plain conversations to legal harmony too, `needed` only requests with
    tools, a format, a reasoning budget or effort none, `never` refuses what cannot do without.
    parallel_calls: a call does not end the turn, unless the request says that it shall; gpt-oss
    was trained to stop there.
    """

    when: Literal["always", "needed", "never"] = "needed"
    available: bool = True
    parallel_calls: bool = False


@dataclass(frozen=True, slots=True)
class ConstraintRequest:
    """What a request wants of the samples.

    effort: None for no reasoning; budget: the most tokens of it, >= 1, None is free.
    enforce_unsaid: whether tools without `strict` are held to their schema where it compiles.
    parallel_calls: whether a turn may make several calls.
    effort_param: the request's field that says the effort.
    """

    tools: Tools
    choice: ToolChoice
    form: AnswerFormat | None = None
    effort: Effort | None = Effort.MEDIUM
    budget: int | None = None
    enforce_unsaid: bool = False
    parallel_calls: bool = True
    effort_param: str = "reasoning.effort"

    @property
    def callable(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        allowed = self.choice.allowed
        return tuple(
            tool
            for tool in self.tools.served
            if self.choice.mode != "none"
            and (allowed is None or tool.declared.recipient in allowed)
        )


@dataclass(frozen=True, slots=True)
class Constraint:
    """The masks of a sampling.

    grammar: Lark text for what follows `prefill`, None where sampling is free. answer_grammar:
    what of it is left after the final header. reasoned_grammar: as `TurnPlan` has it. prefill: the
    header that is given outright.
    parallel_calls: a call does not end the turn. own_grammar: a part of it is the client's regex or
    Lark.
    """

    grammar: str | None = None
    answer_grammar: str | None = None
    reasoned_grammar: str | None = None
    prefill: tuple[int, ...] = ()
    parallel_calls: bool = False
    own_grammar: bool = False

    def applied(self, plan: TurnPlan) -> TurnPlan:
        """The plan with these masks in place of its own."""
        return replace(
            plan,
            grammar=self.grammar,
            answer_grammar=self.answer_grammar,
            reasoned_grammar=self.reasoned_grammar,
            prefill=self.prefill,
            parallel_calls=self.parallel_calls,
            own_grammar=self.own_grammar,
        )


def constrain(wish: ConstraintRequest, masking: Masking) -> Constraint:
    """Compile what the request wants. It may take seconds: call it off the event loop.

    Equal wishes are compiled once. Raises InvalidRequest naming the field that cannot be enforced.
    """
    promised = next(_promised(wish), None)
    if masking.when == "never" or not masking.available:
        if promised is not None:
            raise InvalidRequest(
                f"'{promised}' cannot be enforced here: sampling is not constrained.",
                param=promised,
                code="unsupported_parameter",
            )
        return Constraint(prefill=_prefill(wish))
    needed = promised is not None or bool(wish.callable) or wish.effort is None
    if masking.when == "needed" and not needed:
        return Constraint()
    return _kept(wish, masking.parallel_calls and wish.parallel_calls)


def answer_only(masking: Masking) -> Constraint:
    """Reasoning, then a final message that is not blank: no calls, and nothing else to show.

    Without masks nothing is enforced.
    """
    if masking.when == "never" or not masking.available:
        return Constraint()
    spec = GrammarSpec(answer=RegexText(r"\S(.|\n)*"), preambles=False)
    return Constraint(grammar=turn_grammar(spec), answer_grammar=answer_grammar(spec))


def constrained(plan: TurnPlan, wish: ConstraintRequest, masking: Masking) -> TurnPlan:
    """The plan with what `constrain` gives."""
    return constrain(wish, masking).applied(plan)


def _prefill(wish: ConstraintRequest) -> tuple[int, ...]:
    """The final header where nothing else may be said."""
    return final_headers()[0] if wish.effort is None and not wish.callable else ()


def _promised(wish: ConstraintRequest) -> Iterator[str]:
    """The fields that can only be honoured by masks."""
    choice = wish.choice
    if wish.tools.served and (choice.mode != "auto" or choice.allowed is not None):
        yield choice.param
    if wish.form is not None:
        yield wish.form.param
    if wish.budget is not None:
        yield "reasoning.max_tokens"
    if wish.effort is None and wish.callable:
        yield wish.effort_param
    for tool in wish.callable:
        if tool.strict:
            yield f"{tool.param}.strict"
        if tool.input_grammar is not None:
            yield f"{tool.param}.format"


@dataclass(frozen=True)
class _Asked:
    """A wish, known by its content."""

    content: bytes
    wish: ConstraintRequest = field(compare=False)


class _Hurried(Exception):
    """Wishes were given up for want of time: the next time may do better."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__("the request's schemas take too long to compile")
        self.constraint = constraint


def _kept(wish: ConstraintRequest, parallel_calls: bool) -> Constraint:
    try:
        content = orjson.dumps(wish, default=sorted)
    except TypeError:  # nested too deep, or a number that JSON has and orjson has not
        content = None
    try:
        if content is None or len(content) > _MAX_KEPT_BYTES:
            return _compile(wish, parallel_calls)
        return _compile_kept(_Asked(content, wish), parallel_calls)
    except _Hurried as hurried:
        return hurried.constraint


@lru_cache(maxsize=512)
def _compile_kept(asked: _Asked, parallel_calls: bool) -> Constraint:
    return _compile(asked.wish, parallel_calls)


def _compile(wish: ConstraintRequest, parallel_calls: bool) -> Constraint:
    spec, turn, in_time = _compilable(wish, parallel_calls)
    answer, prefill = answer_grammar(spec), _prefill(wish)
    constraint = Constraint(
        grammar=answer if prefill else turn,
        answer_grammar=answer,
        reasoned_grammar=turn_grammar(replace(spec, reasoning=False)) if spec.reasoning else None,
        prefill=prefill,
        parallel_calls=parallel_calls and bool(spec.tools),
        own_grammar=any(isinstance(tool.body, RegexText | LarkText) for tool in spec.tools),
    )
    if not in_time:
        raise _Hurried(constraint)
    return constraint


def _compilable(wish: ConstraintRequest, parallel_calls: bool) -> tuple[GrammarSpec, str, bool]:
    """The wish as far as it compiles: first all at once, then one by one, then promises alone.

    And its Lark text, and whether there was time for all that.
    """
    tools = wish.callable
    wanted = [input_constraint(tool, enforce_unsaid=wish.enforce_unsaid) for tool in tools]
    wanted.append(answer_constraint(wish.form))
    spec = _spec(wish, [each.body for each in wanted], parallel_calls)
    with suppress(InvalidConstraint):
        return spec, compiling(spec), True
    until = time.monotonic() + SETTLE_SECONDS
    settled = _settled(wanted, until)
    in_time = time.monotonic() < until
    spec = _spec(wish, settled, parallel_calls)
    with suppress(InvalidConstraint):
        return spec, compiling(spec), in_time
    spec = _spec(wish, [each.least for each in wanted], parallel_calls)
    try:
        return spec, compiling(spec), in_time
    except InvalidConstraint as problem:
        param = wish.tools.param if tools or wish.form is None else wish.form.param
        raise invalid(param, f"it cannot be enforced: {problem}", "invalid_grammar") from problem


def _settled(wanted: Sequence[BodyConstraint], until: float) -> list[Body]:
    """What of each compiles. Promises are tried first: no wish may use up the time for them."""
    bodies = [each.body for each in wanted]
    for place in sorted(range(len(wanted)), key=lambda place: wanted[place].promised is None):
        bodies[place] = wanted[place].settled(in_time=time.monotonic() < until)
    return bodies


def _spec(wish: ConstraintRequest, bodies: Sequence[Body], parallel_calls: bool) -> GrammarSpec:
    *inputs, answer = bodies
    return GrammarSpec(
        tools=tuple(
            CallableTool(tool.declared.recipient, body)
            for tool, body in zip(wish.callable, inputs, strict=True)
        ),
        call_required=wish.choice.mode == "required",
        answer=answer,
        reasoning=wish.effort is not None,
        reasoning_budget=wish.budget,
        parallel_calls=parallel_calls,
    )
