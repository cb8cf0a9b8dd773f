"""Constraints on the arguments of calls and on the final answer.

A required constraint (a strict schema, the grammar of a custom tool) is enforced, or the request is
refused with an error that names the field. An optional one (a schema that is not strict) is
replaced by any JSON of its type where it cannot be enforced; single keywords are dropped before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harmony.grammar import (
    MAX_GRAMMAR_CHARACTERS,
    AnyJson,
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
    turn_grammar,
)
from harmony.schemas import (
    UnsupportedSchema,
    check_strict,
    for_object,
    is_plain,
    is_wide,
    relaxed,
    root_type,
    without_dialects,
)
from server.errors import InvalidRequest
from server.inbound.formats import JSON_OBJECT, AnswerFormat
from server.inbound.grammar_sandbox import shared
from server.inbound.tools import Tool
from server.schemas.fields import invalid

_PLAIN_CHARACTERS = 1 << 16
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class BodyConstraint:
    """The constraint on one body.

    required_by: the request's field that requires `body`, None where that is optional.
    fallback: the constraint to use where `body` cannot be enforced, None where there is no other.
    """

    body: Body
    required_by: str | None = None
    fallback: Body | None = None

    @property
    def minimum(self) -> Body:
        """The constraint that has to be enforced in any case."""
        return self.body if self.fallback is None else self.fallback

    def enforceable(self, *, in_time: bool) -> Body:
        """`body` if it compiles, else the minimum. Raises InvalidRequest if `body` is required.

        in_time: False if there is no time left to compile `body`, which then counts as a failure.
        """
        try:
            if not in_time:
                raise InvalidConstraint("the request's schemas take too long to compile")
            compile_spec(GrammarSpec(answer=self.body), answer_grammar)
        except InvalidConstraint as problem:
            if self.required_by is None:
                return self.minimum
            reason = f"it cannot be enforced: {problem}"
            raise invalid(self.required_by, reason, "invalid_grammar") from problem
        return self.body


def input_constraint(tool: Tool, *, enforce_by_default: bool) -> BodyConstraint:
    """The constraint on a tool's input. Raises InvalidRequest for a schema that cannot be strict.

    enforce_by_default: the schema of a tool without `strict` is enforced where it compiles.
    """
    if tool.declared.kind == "custom":
        return _custom_input(tool)
    parameters = tool.function.parameters
    if parameters is None:
        parameters = _NO_ARGUMENTS
    if tool.strict:
        named = f"function '{tool.function.name}'"
        return _strict(parameters, f"{tool.param}.parameters", named, "invalid_function_parameters")
    schema = for_object(parameters) if tool.strict is None and enforce_by_default else None
    if schema is None:
        return BodyConstraint(AnyObject())
    return _optional({"type": "object", **schema}, AnyObject())


def hosted_constraint(call: CallableTool) -> BodyConstraint:
    """The constraint on a call of a hosted tool; a schema is enforced where it compiles."""
    match call.body:
        case SchemaJson(schema):
            return _optional(schema, AnyObject())
        case body:
            return BodyConstraint(body)


def answer_constraint(form: AnswerFormat | None) -> BodyConstraint:
    """The constraint on the answer. Raises InvalidRequest for a schema that cannot be strict."""
    if form is None:
        return BodyConstraint(FreeText())
    if form.declared is JSON_OBJECT:
        return BodyConstraint(AnyObject())
    if form.strict:
        named = f"response_format '{form.declared.name}'"
        return _strict(form.declared.schema, f"{form.param}.schema", named, "invalid_json_schema")
    kind = root_type(form.declared.schema)
    return _optional(form.declared.schema, AnyObject() if kind == "object" else AnyJson(kind))


def compile_spec(spec: GrammarSpec, write: Callable[[GrammarSpec], str] = turn_grammar) -> str:
    """The grammar that `write` makes of a spec. Raises InvalidConstraint if it does not compile."""
    grammar = write(spec)
    if len(grammar) > MAX_GRAMMAR_CHARACTERS:
        raise InvalidConstraint(
            f"it makes a grammar of more than {MAX_GRAMMAR_CHARACTERS:,} characters"
        )
    bodies = (spec.answer, *(tool.body for tool in spec.tools))
    if len(grammar) <= _PLAIN_CHARACTERS and all(map(_is_plain, bodies)):
        return grammar
    if problem := shared().problem(grammar):
        raise InvalidConstraint(problem)
    return grammar


def _is_plain(body: Body) -> bool:
    """Whether a grammar of this body always compiles, in a short time."""
    match body:
        case FreeText() | AnyObject() | AnyJson():
            return True
        case SchemaJson(schema):
            return is_plain(schema)
        case _:
            return False


def is_own(body: Body) -> bool:
    """Whether the body of a client's tool or of an answer has a schema, a regex or a Lark grammar.

    Only such a one can lead to where it allows no token.
    """
    return isinstance(body, SchemaJson | RegexText | LarkText)


def _custom_input(tool: Tool) -> BodyConstraint:
    grammar = tool.input_grammar
    if grammar is None:
        return BodyConstraint(FreeText())
    definition = grammar["definition"]
    body = RegexText(definition) if grammar["syntax"] == "regex" else LarkText(definition)
    return BodyConstraint(body, f"{tool.param}.format.definition")


def _optional(schema: Mapping[str, Any], fallback: Body) -> BodyConstraint:
    """Uses no schema that is too wide: it would compile, but fail while the answer is sampled."""
    schema = relaxed(schema)
    return BodyConstraint(fallback if is_wide(schema) else SchemaJson(schema), fallback=fallback)


def _strict(schema: Any, param: str, named: str, code: str) -> BodyConstraint:
    try:
        check_strict(schema)
    except UnsupportedSchema as error:
        # The message begins as OpenAI's: clients look for its words.
        message = f"Invalid schema for {named}: it cannot be strict: {error}."
        raise InvalidRequest(message, param=param, code=code) from error
    return BodyConstraint(SchemaJson(without_dialects(schema)), param)
