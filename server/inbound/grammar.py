"""What a request lets the model sample, as a grammar for the engine's masks.

Tool choice, strict tools, answer formats, the reasoning budget and effort `none` are enforced, not
asked for. What only helps (a schema that nobody called strict) is left out where it does not
compile; what was promised is refused with the field that wants it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from llguidance import LLMatcher

from harmony.grammar import (
    AnyObject,
    Body,
    CallableTool,
    FreeText,
    GrammarSpec,
    InvalidConstraint,
    LarkText,
    RegexText,
    SchemaJson,
    answer_grammar,
    final_headers,
    turn_grammar,
)
from harmony.messages import Effort
from harmony.schemas import UnsupportedSchema, check_strict
from server.errors import InvalidRequest
from server.inbound.fields import invalid
from server.inbound.formats import JSON_OBJECT, AnswerFormat
from server.inbound.tool_choice import ToolChoice
from server.inbound.tools import Tool, Tools
from server.plan import TurnPlan

MAX_CHARACTERS = 262_144
"""The longest schema, regex or grammar that is compiled."""

_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Masking:
    """When grammars are used. available: whether the engine can mask.

    when: `always` holds plain conversations to legal harmony too, `needed` only requests with
    tools, a format, a reasoning budget or effort none, `never` refuses what cannot do without.
    """

    when: Literal["always", "needed", "never"] = "needed"
    available: bool = True


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request wants of the samples.

    effort: None for no reasoning; budget: the most tokens of it, >= 1, None is free.
    enforce_unsaid: whether tools without `strict` are held to their schema where it compiles.
    """

    tools: Tools
    choice: ToolChoice
    form: AnswerFormat | None = None
    effort: Effort | None = Effort.MEDIUM
    budget: int | None = None
    enforce_unsaid: bool = False

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
    what of it is left after the final header. prefill: the header that is given outright.
    """

    grammar: str | None = None
    answer_grammar: str | None = None
    prefill: tuple[int, ...] = ()


def constrain(wish: Wish, masking: Masking) -> Constraint:
    """Compile what the request wants. It may take a while: call it off the event loop.

    Raises InvalidRequest naming the field that cannot be enforced.
    """
    answers_at_once = wish.effort is None and not wish.callable
    prefill = final_headers()[0] if answers_at_once else ()
    promised = next(_promised(wish), None)
    if masking.when == "never" or not masking.available:
        if promised is not None:
            raise InvalidRequest(
                f"'{promised}' cannot be enforced here: sampling is not constrained.",
                param=promised,
                code="unsupported_parameter",
            )
        return Constraint(prefill=prefill)
    if masking.when == "needed" and promised is None and not wish.callable:
        return Constraint(prefill=prefill)
    spec = _spec(wish)
    answer = answer_grammar(spec)
    return Constraint(answer if answers_at_once else turn_grammar(spec), answer, prefill)


def constrained(plan: TurnPlan, wish: Wish, masking: Masking) -> TurnPlan:
    """The plan with what `constrain` gives."""
    constraint = constrain(wish, masking)
    return replace(
        plan,
        grammar=constraint.grammar,
        answer_grammar=constraint.answer_grammar,
        prefill=constraint.prefill,
    )


def _promised(wish: Wish) -> Iterator[str]:
    """The fields that can only be honoured by masks."""
    choice = wish.choice
    if wish.tools.served and (choice.mode != "auto" or choice.allowed is not None):
        yield "tool_choice"
    if wish.form is not None:
        yield wish.form.param
    if wish.budget is not None:
        yield "reasoning.max_tokens"
    if wish.effort is None and wish.callable:
        yield "reasoning.effort"
    for tool in wish.callable:
        if tool.strict:
            yield f"{tool.param}.strict"
        if tool.input_grammar is not None:
            yield f"{tool.param}.format"


def _spec(wish: Wish) -> GrammarSpec:
    return GrammarSpec(
        tools=tuple(
            CallableTool(tool.declared.recipient, _arguments(tool, wish.enforce_unsaid))
            for tool in wish.callable
        ),
        call_required=wish.choice.mode == "required",
        answer=FreeText() if wish.form is None else _answer(wish.form),
        reasoning=wish.effort is not None,
        reasoning_budget=wish.budget,
    )


def _arguments(tool: Tool, enforce_unsaid: bool) -> Body:
    if tool.declared.kind == "custom":
        return _free_input(tool)
    parameters = tool.function.parameters or _NO_ARGUMENTS
    if tool.strict:
        return _strict(parameters, f"{tool.param}.parameters")
    if tool.strict is None and enforce_unsaid:
        return _where_it_compiles({"type": "object", **parameters})
    return AnyObject()


def _free_input(tool: Tool) -> Body:
    grammar = tool.input_grammar
    if grammar is None:
        return FreeText()
    definition = grammar["definition"]
    body = RegexText(definition) if grammar["syntax"] == "regex" else LarkText(definition)
    return _promise(body, f"{tool.param}.format.definition")


def _answer(form: AnswerFormat) -> Body:
    if form.told is JSON_OBJECT:
        return AnyObject()
    if form.strict:
        return _strict(form.told.schema, f"{form.param}.schema")
    return _where_it_compiles(form.told.schema)


def _strict(schema: Any, param: str) -> Body:
    try:
        check_strict(schema)
    except UnsupportedSchema as error:
        raise invalid(param, f"the schema cannot be strict: {error}", "invalid_schema") from error
    return _promise(SchemaJson(schema), param)


def _promise(body: Body, param: str) -> Body:
    if problem := _problem(body):
        raise invalid(param, f"it cannot be enforced: {problem}", "invalid_grammar")
    return body


def _where_it_compiles(schema: Any) -> Body:
    body = SchemaJson(schema)
    return AnyObject() if _problem(body) else body


def _problem(body: Body) -> str | None:
    """Why the body cannot be enforced, None where it can."""
    try:
        text = answer_grammar(GrammarSpec(answer=body))
    except InvalidConstraint as error:
        return str(error)
    if len(text) > MAX_CHARACTERS:
        return f"it is longer than {MAX_CHARACTERS:,} characters"
    return _compiled(text)


@lru_cache(maxsize=256)
def _compiled(grammar: str) -> str | None:
    report: str = LLMatcher.validate_grammar(grammar)
    # The rest of the report quotes the grammar around the place.
    return report.partition("\n")[0].removesuffix(".") or None
