"""What a call's arguments and the final answer must be, and what of it can be enforced.

What was promised (strict schemas, custom tools' grammars) is enforced or refused with its field;
what only helps (a schema that nobody called strict) gives way to any JSON of its type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harmony.grammar import (
    AnyJson,
    AnyObject,
    Body,
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
    is_plain,
    is_wide,
    root_type,
    without_dialects,
)
from server.inbound.formats import JSON_OBJECT, AnswerFormat
from server.inbound.grammar_sandbox import shared
from server.inbound.tools import Tool
from server.schemas.fields import invalid

MAX_CHARACTERS = 1 << 19
"""The longest grammar, all of a request's schemas together, that is compiled."""

_PLAIN_CHARACTERS = 1 << 16
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class BodyConstraint:
    """What a body should be. promised: the field that wants no less, None for a mere wish.

    fallback: what will do where the body cannot be enforced, None where nothing else does.
    """

    body: Body
    promised: str | None = None
    fallback: Body | None = None

    @property
    def least(self) -> Body:
        """What has to be enforced."""
        return self.body if self.fallback is None else self.fallback

    def settled(self, *, in_time: bool) -> Body:
        """What of it compiles; not in_time: no more is tried. Raises InvalidRequest."""
        try:
            if not in_time:
                raise InvalidConstraint("the request's schemas take too long to compile")
            compiling(GrammarSpec(answer=self.body), answer_grammar)
        except InvalidConstraint as problem:
            if self.promised is None:
                return self.least
            reason = f"it cannot be enforced: {problem}"
            raise invalid(self.promised, reason, "invalid_grammar") from problem
        return self.body


def input_constraint(tool: Tool, *, enforce_unsaid: bool) -> BodyConstraint:
    """What a tool is called with. Raises InvalidRequest for a schema that cannot be strict.

    enforce_unsaid: a tool without `strict` is held to its schema where that compiles.
    """
    if tool.declared.kind == "custom":
        return _wanted_text(tool)
    parameters = tool.function.parameters or _NO_ARGUMENTS
    if tool.strict:
        return _strict(parameters, f"{tool.param}.parameters")
    if tool.strict is None and enforce_unsaid:
        return _wished({"type": "object", **parameters}, AnyObject())
    return BodyConstraint(AnyObject())


def answer_constraint(form: AnswerFormat | None) -> BodyConstraint:
    """What the answer is. Raises InvalidRequest for a schema that cannot be strict."""
    if form is None:
        return BodyConstraint(FreeText())
    if form.told is JSON_OBJECT:
        return BodyConstraint(AnyObject())
    if form.strict:
        return _strict(form.told.schema, f"{form.param}.schema")
    kind = root_type(form.told.schema)
    return _wished(form.told.schema, AnyObject() if kind == "object" else AnyJson(kind))


def compiling(spec: GrammarSpec, write: Callable[[GrammarSpec], str] = turn_grammar) -> str:
    """What `write` makes of the spec. Raises InvalidConstraint where that does not compile."""
    grammar = write(spec)
    if len(grammar) > MAX_CHARACTERS:
        raise InvalidConstraint(f"it makes a grammar of more than {MAX_CHARACTERS:,} characters")
    bodies = (spec.answer, *(tool.body for tool in spec.tools))
    if len(grammar) <= _PLAIN_CHARACTERS and all(map(_is_plain, bodies)):
        return grammar
    if problem := shared().problem(grammar):
        raise InvalidConstraint(problem)
    return grammar


def _is_plain(body: Body) -> bool:
    """Whether there is no need to try it."""
    match body:
        case FreeText() | AnyObject() | AnyJson():
            return True
        case SchemaJson(schema):
            return is_plain(schema)
        case _:
            return False


def _wanted_text(tool: Tool) -> BodyConstraint:
    grammar = tool.input_grammar
    if grammar is None:
        return BodyConstraint(FreeText())
    definition = grammar["definition"]
    body = RegexText(definition) if grammar["syntax"] == "regex" else LarkText(definition)
    return BodyConstraint(body, f"{tool.param}.format.definition")


def _wished(schema: Mapping[str, Any], fallback: Body) -> BodyConstraint:
    """The fallback where the schema compiles, but would fail the answer when that comes to it."""
    return BodyConstraint(fallback if is_wide(schema) else SchemaJson(schema), fallback=fallback)


def _strict(schema: Any, param: str) -> BodyConstraint:
    try:
        check_strict(schema)
    except UnsupportedSchema as error:
        raise invalid(param, f"the schema cannot be strict: {error}", "invalid_schema") from error
    return BodyConstraint(SchemaJson(without_dialects(schema)), param)
