"""A request's constraints as a grammar."""

import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harmony.grammar import (
    MAX_GRAMMAR_CHARACTERS,
    MAX_LITERAL_BYTES,
    AnyJson,
    AnyObject,
    CallableTool,
    FreeText,
    GrammarSpec,
    LarkText,
    RegexText,
    SchemaJson,
    answer_grammar,
    final_headers,
    turn_grammar,
)
from harmony.messages import Effort
from server.errors import InvalidRequest
from server.generation.plan import Constraint
from server.inbound import constraints, grammar
from server.inbound.formats import read_format
from server.inbound.grammar import (
    ConstraintRequest,
    Masking,
    answer_only,
    constrain,
)
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import OpenedTool, read_tools
from tests.server.tools.hosted import declaration

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
UNCOMPILABLE = {"type": "object", "not": {"required": ["a"]}}
F = {"type": "function", "name": "f", "parameters": SCHEMA}
G = {"type": "function", "name": "g"}
SQL: dict[str, Any] = {"type": "custom", "name": "sql"}
FORMAT = {"type": "json_schema", "name": "n", "schema": SCHEMA}
NEVER, NEEDED, ALWAYS = Masking("never"), Masking("needed"), Masking("always")
CANNOT = Masking("always", available=False)


def constraint_request(
    tools: Any = None, choice: Any = None, form: Any = None, by_default: bool = True, **more: Any
) -> ConstraintRequest:
    read = read_tools(tools)
    tool_choice = read_tool_choice(choice, read)
    answer_format = read_format(form, "text.format")
    return ConstraintRequest(
        read, tool_choice, answer_format, enforce_by_default=by_default, **more
    )


def custom(definition: str, syntax: str) -> dict[str, Any]:
    return SQL | {"format": {"type": "grammar", "syntax": syntax, "definition": definition}}


def call(name: str, body: Any) -> CallableTool:
    return CallableTool(f"functions.{name}", body)


def assert_spec(request: ConstraintRequest, spec: GrammarSpec) -> None:
    constraint = constrain(request, NEEDED)
    assert constraint.grammar == turn_grammar(spec)
    assert constraint.answer_grammar == answer_grammar(spec)
    reasoned = turn_grammar(replace(spec, reasoning=False))
    assert constraint.reasoned_grammar == (reasoned if spec.reasoning else None)
    assert constraint.prefill == ()
    assert constraint.spec == spec


def refused(request: ConstraintRequest, masking: Masking = NEEDED) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        constrain(request, masking)
    return caught.value


@pytest.mark.parametrize("masking", [NEEDED, NEVER, CANNOT])
def test_a_plain_conversation_is_free(masking: Masking) -> None:
    assert constrain(constraint_request(), masking) == Constraint()


def test_always_constrains_a_plain_conversation_to_harmony() -> None:
    assert constrain(constraint_request(), ALWAYS).grammar == turn_grammar(GrammarSpec())


def test_a_bias_of_control_tokens_is_constrained_to_harmony() -> None:
    """Without a grammar, each token of the answer could be a message of its own."""
    request = constraint_request(biases_control=True)
    assert constrain(request, NEEDED).grammar == turn_grammar(GrammarSpec())
    assert constrain(request, NEVER) == Constraint()


def test_answer_only_allows_reasoning_and_text() -> None:
    spec = GrammarSpec(answer=RegexText(r"\S(.|\n)*"), preambles=False)
    reasoned = turn_grammar(replace(spec, reasoning=False))
    expected = Constraint(turn_grammar(spec), answer_grammar(spec), reasoned, spec=spec)
    assert [answer_only(masking) for masking in (NEEDED, ALWAYS)] == [expected, expected]


@pytest.mark.parametrize("masking", [NEVER, CANNOT])
def test_answer_only_enforces_nothing_without_masks(masking: Masking) -> None:
    assert answer_only(masking) == Constraint()


def test_calls_are_constrained_to_declared_tools() -> None:
    spec = GrammarSpec(
        tools=(
            call("f", SchemaJson(SCHEMA)),
            call("g", SchemaJson(CLOSED)),
            call("sql", FreeText()),
        )
    )
    assert_spec(constraint_request([F, G, SQL]), spec)


CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("strict", "by_default", "body"),
    [
        (None, True, SchemaJson(SCHEMA)),
        (None, False, AnyObject()),
        (True, False, SchemaJson(SCHEMA)),
        (False, True, AnyObject()),
    ],
)
def test_which_schemas_are_enforced(strict: bool | None, by_default: bool, body: Any) -> None:
    tools = [F | {"strict": strict}]
    assert_spec(
        constraint_request(tools, by_default=by_default), GrammarSpec(tools=(call("f", body),))
    )


def test_arguments_are_an_object_even_if_the_schema_has_no_type() -> None:
    tool = F | {"parameters": {"properties": {"a": {"type": "integer"}}}}
    body = SchemaJson({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert_spec(constraint_request([tool]), GrammarSpec(tools=(call("f", body),)))


def test_a_schema_that_is_not_strict_may_fail_to_compile() -> None:
    tool = F | {"parameters": UNCOMPILABLE}
    assert_spec(constraint_request([tool]), GrammarSpec(tools=(call("f", AnyObject()),)))


@pytest.mark.parametrize("strict", [None, False])
def test_a_schema_that_is_too_wide_is_replaced(strict: bool | None) -> None:
    wide = {"type": "object", "properties": {f"p{number}": {} for number in range(1000)}}
    tools = [{"type": "function", "name": "f", "parameters": wide}]
    form = {"type": "json_schema", "name": "n", "schema": wide, "strict": strict}
    spec = GrammarSpec((call("f", AnyObject()),), answer=AnyObject())
    assert_spec(constraint_request(tools, form=form), spec)


def test_a_huge_schema_that_is_not_strict_is_not_compiled() -> None:
    tool = F | {"parameters": {"type": "object", "description": "x" * MAX_GRAMMAR_CHARACTERS}}
    assert_spec(constraint_request([tool]), GrammarSpec(tools=(call("f", AnyObject()),)))


@pytest.mark.parametrize(
    ("definition", "syntax", "body"),
    [
        ("[a-z]+", "regex", RegexText("[a-z]+")),
        ('start: "a"', "lark", LarkText('start: "a"')),
    ],
)
def test_a_custom_tools_grammar_is_enforced(definition: str, syntax: str, body: Any) -> None:
    request = constraint_request([custom(definition, syntax)])
    assert_spec(request, GrammarSpec(tools=(call("sql", body),)))


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (F | {"parameters": UNCOMPILABLE, "strict": True}, "tools.0.parameters"),
        (F | {"parameters": {"type": "object"}, "strict": True}, "tools.0.parameters"),
        (
            F
            | {
                "parameters": SCHEMA
                | {"properties": {"a": {"type": "string", "pattern": "(?=a)b"}}},
                "strict": True,
            },
            "tools.0.parameters",
        ),
        (
            SQL | {"format": {"type": "grammar", "syntax": "regex", "definition": "("}},
            "tools.0.format.definition",
        ),
        (
            SQL | {"format": {"type": "grammar", "syntax": "lark", "definition": "start: @x"}},
            "tools.0.format.definition",
        ),
        (
            SQL
            | {
                "format": {
                    "type": "grammar",
                    "syntax": "regex",
                    "definition": "a" * MAX_GRAMMAR_CHARACTERS,
                }
            },
            "tools.0.format.definition",
        ),
    ],
)
def test_an_error_names_the_required_constraint(tool: Any, param: str) -> None:
    error = refused(constraint_request([tool]))
    assert error.param == param
    assert "\n" not in error.message


def test_a_strict_tool_without_parameters_has_no_arguments() -> None:
    tools = [G | {"strict": True}]
    assert_spec(constraint_request(tools), GrammarSpec(tools=(call("g", SchemaJson(CLOSED)),)))


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", "own"])
def test_the_dialect_of_a_strict_schema_changes_nothing(draft: str) -> None:
    schema = {"$schema": draft, **SCHEMA}
    spec = GrammarSpec((call("f", SchemaJson(SCHEMA)),), answer=SchemaJson(SCHEMA))
    strict = {"strict": True}
    form = FORMAT | strict | {"schema": schema}
    assert_spec(constraint_request([F | strict | {"parameters": schema}], form=form), spec)


def test_tool_choice_none_forbids_calls() -> None:
    assert_spec(constraint_request([F], "none"), GrammarSpec())


def test_tool_choice_required_requires_a_call() -> None:
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(constraint_request([F], "required"), GrammarSpec(tools=tools, call_required=True))


def test_a_named_function_is_the_only_one_allowed() -> None:
    choice = {"type": "function", "name": "f"}
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(constraint_request([F, G], choice), GrammarSpec(tools=tools, call_required=True))


def test_only_allowed_tools_may_be_called() -> None:
    allowed = [{"type": "function", "name": "f"}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(constraint_request([F, G], choice), GrammarSpec(tools=tools))


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (FORMAT, SchemaJson(SCHEMA)),
        (FORMAT | {"strict": True}, SchemaJson(SCHEMA)),
        (FORMAT | {"schema": UNCOMPILABLE}, AnyObject()),
        ({"type": "json_object"}, AnyObject()),
    ],
)
def test_the_answer_format_is_enforced(form: Any, body: Any) -> None:
    assert_spec(constraint_request(form=form), GrammarSpec(answer=body))


@pytest.mark.parametrize(
    ("named", "body"),
    [
        ({"type": "array"}, AnyJson("array")),
        ({"type": "string"}, AnyJson("string")),
        ({"type": ["array", "null"]}, AnyJson()),
        ({"type": "list"}, AnyJson()),
        ({}, AnyJson()),
    ],
)
def test_the_fallback_of_a_format_keeps_the_root_type(named: Any, body: Any) -> None:
    schema = {**named, "not": {"const": 1}}
    assert_spec(constraint_request(form=FORMAT | {"schema": schema}), GrammarSpec(answer=body))


def test_the_fallback_of_a_wide_format_keeps_the_root_type() -> None:
    wide = {"type": "object", "properties": {f"p{number}": {} for number in range(1000)}}
    form = FORMAT | {"schema": {"type": "array", "items": wide}}
    assert_spec(constraint_request(form=form), GrammarSpec(answer=AnyJson("array")))


def test_the_fallback_of_arguments_is_an_object() -> None:
    tool = F | {"parameters": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}
    assert_spec(constraint_request([tool]), GrammarSpec(tools=(call("f", AnyObject()),)))


def test_a_strict_format_that_cannot_be_enforced_names_its_schema() -> None:
    error = refused(constraint_request(form=FORMAT | {"schema": UNCOMPILABLE, "strict": True}))
    assert error.param == "text.format.schema"


def test_the_error_of_a_schema_that_cannot_be_strict_is_openais() -> None:
    loose = {"type": "object", "properties": {}}
    form = refused(constraint_request(form=FORMAT | {"schema": loose, "strict": True}))
    tool = refused(constraint_request([F | {"parameters": loose, "strict": True}]))
    assert [(error.param, error.code) for error in (form, tool)] == [
        ("text.format.schema", "invalid_json_schema"),
        ("tools.0.parameters", "invalid_function_parameters"),
    ]
    place = "$.additionalProperties: has to be given, and to be false."
    # langchain-openai advises on errors with these words.
    assert form.message.startswith(f"Invalid schema for response_format '{FORMAT['name']}': ")
    assert tool.message.startswith("Invalid schema for function 'f': ")
    assert form.message.endswith(place)
    assert tool.message.endswith(place)


def test_a_budget_limits_the_reasoning() -> None:
    assert_spec(constraint_request(budget=5), GrammarSpec(reasoning_budget=5))


def test_without_effort_and_tools_the_answer_is_prefilled() -> None:
    header = final_headers()[0]
    request = constraint_request(effort=None)
    for masking in (NEVER, CANNOT):
        assert constrain(request, masking) == Constraint(prefill=header)
    spec = GrammarSpec(reasoning=False)
    answer = answer_grammar(spec)
    for masking in (NEEDED, ALWAYS):
        assert constrain(request, masking) == Constraint(answer, answer, prefill=header, spec=spec)


def test_without_effort_but_with_tools_reasoning_is_forbidden() -> None:
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(constraint_request([F], effort=None), GrammarSpec(tools=tools, reasoning=False))


@pytest.mark.parametrize(
    ("requested", "param"),
    [
        (constraint_request([F], "required"), "tool_choice"),
        (constraint_request([F], "none"), "tool_choice"),
        (constraint_request([F | {"strict": True}]), "tools.0.strict"),
        (
            constraint_request(
                [SQL | {"format": {"type": "grammar", "syntax": "regex", "definition": "a"}}]
            ),
            "tools.0.format",
        ),
        (constraint_request(form=FORMAT), "text.format"),
        (constraint_request(budget=5), "reasoning.max_tokens"),
        (constraint_request([F], effort=None), "reasoning.effort"),
    ],
)
@pytest.mark.parametrize("masking", [NEVER, CANNOT])
def test_a_field_that_needs_masks_is_refused_without_them(
    requested: ConstraintRequest, param: str, masking: Masking
) -> None:
    error = refused(requested, masking)
    assert (error.param, error.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize("masking", [NEVER, CANNOT])
def test_tools_that_require_nothing_need_no_masks(masking: Masking) -> None:
    assert constrain(constraint_request([F, G, SQL]), masking) == Constraint()


@pytest.mark.parametrize(
    ("tools", "choice", "own"),
    [
        ([SQL], None, False),
        ([F], None, True),
        ([F, SQL], {"type": "custom", "name": "sql"}, False),
        ([custom("a+", "regex")], None, True),
        ([custom('start: "a"', "lark")], None, True),
    ],
)
def test_own_grammar_is_whether_a_schema_or_grammar_of_the_request_is_used(
    tools: Any, choice: Any, own: bool
) -> None:
    request = constraint_request(tools, choice)
    assert constrain(request, NEEDED).own_grammar is own


def test_other_efforts_need_no_grammar() -> None:
    assert constrain(constraint_request(effort=Effort.HIGH), NEEDED) == Constraint()


def test_parallel_calls_need_the_server_and_the_request() -> None:
    parallel = Masking("needed", parallel_calls=True)
    tools = (call("f", SchemaJson(SCHEMA)),)
    constraint = constrain(constraint_request([F]), parallel)
    assert constraint.grammar == turn_grammar(GrammarSpec(tools=tools, parallel_calls=True))
    assert constraint.parallel_calls
    assert not constrain(constraint_request([F], parallel_calls=False), parallel).parallel_calls
    assert not constrain(constraint_request([F]), NEEDED).parallel_calls
    assert not constrain(constraint_request(form=FORMAT), parallel).parallel_calls


@pytest.mark.parametrize("filler", ["x", "x" * (1 << 16), 1 << 64])
def test_equal_requests_are_compiled_once(filler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[GrammarSpec] = []

    def record(spec: GrammarSpec) -> str:
        compiled.append(spec)
        return turn_grammar(spec)

    monkeypatch.setattr(grammar, "compile_spec", record)
    tool = F | {"name": "once", "parameters": SCHEMA | {"description": filler}}
    first, second = (constrain(constraint_request([tool]), NEEDED) for _ in range(2))
    assert first == second
    small = filler == "x"
    assert len(compiled) == (1 if small else 2)


def test_an_answer_that_no_grammar_can_have_is_found_where_a_call_is_required() -> None:
    """The grammar of the turn has no answer then."""
    properties = {"a": {"const": "x" * (MAX_LITERAL_BYTES + 1)}}
    form = FORMAT | {"schema": SCHEMA | {"properties": properties}}
    assert constrain(constraint_request([F], "required", form), NEEDED).answer_grammar
    with pytest.raises(InvalidRequest, match="cannot be enforced"):
        constrain(constraint_request([F], "required", form | {"strict": True}), NEEDED)


def test_other_schemas_are_enforced_if_one_fails() -> None:
    tools = [F, G | {"parameters": UNCOMPILABLE}]
    spec = GrammarSpec(tools=(call("f", SchemaJson(SCHEMA)), call("g", AnyObject())))
    assert_spec(constraint_request(tools), spec)


def long_tool(number: int, **more: Any) -> dict[str, Any]:
    parameters = SCHEMA | {"description": str(number) * (MAX_GRAMMAR_CHARACTERS // 3)}
    return F | {"name": f"f{number}", "parameters": parameters} | more


def test_only_required_schemas_are_used_if_all_are_too_large() -> None:
    tools = [long_tool(0), long_tool(1), long_tool(2), F | {"strict": True}]
    request = constraint_request(tools)
    free = tuple(call(f"f{number}", AnyObject()) for number in range(3))
    assert_spec(request, GrammarSpec(tools=(*free, call("f", SchemaJson(SCHEMA)))))


def test_required_schemas_that_are_too_large_together_are_refused() -> None:
    error = refused(constraint_request([long_tool(number, strict=True) for number in range(3)]))
    assert error.param == "tools"
    assert "524,288 characters" in error.message


def test_nothing_is_compiled_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "COMPILE_SECONDS", 0)
    tools = [F | {"name": "late"}, G | {"parameters": UNCOMPILABLE}]
    spec = GrammarSpec(tools=(call("late", AnyObject()), call("g", AnyObject())))
    assert_spec(constraint_request(tools), spec)
    error = refused(constraint_request([SQL | {"format": LATE}, *tools]))
    assert error.param == "tools.0.format.definition"
    assert "too long" in error.message


def test_a_slow_optional_schema_leaves_time_for_required_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    def problem(text: str) -> str | None:
        nonlocal now
        if "patternProperties" not in text:
            return None
        now += grammar.COMPILE_SECONDS
        return "it takes too long"

    monkeypatch.setattr(grammar, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(constraints, "shared", lambda: SimpleNamespace(problem=problem))
    slow = F | {"name": "slow", "parameters": {"type": "object", "patternProperties": {"a": {}}}}
    calls = (call("slow", AnyObject()), call("f", SchemaJson(SCHEMA)))
    assert_spec(constraint_request([slow, F | {"strict": True}]), GrammarSpec(tools=calls))


class Listed(dict[str, Any]):
    """An item that an answer begins with; other than a dict's, its end can be seen."""


def test_what_a_hosted_tool_shows_is_not_kept_with_its_grammar() -> None:
    listed = Listed(type="mcp_list_tools")
    shown = weakref.ref(listed)
    tool = declaration("functions.kept__add", "mcp", "mcp_call", opening=(listed,))
    read = read_tools([], hosted=[OpenedTool(tool, "tools.0")])
    constraint = constrain(ConstraintRequest(read, read_tool_choice(None, read)), NEEDED)
    del listed, tool, read
    gc.collect()
    assert constraint.grammar is not None
    assert shown() is None


class Examples(list[Any]):
    """A part of a schema; other than a list's, its end can be seen."""


def test_large_schemas_leave_the_cache_before_many_are_in_it() -> None:
    kept = []
    for number in range(150):
        examples = Examples([{}] * 20_000)
        kept.append(weakref.ref(examples))
        schema = {"type": "object", "properties": {"a": {"minimum": number, "examples": examples}}}
        constrain(constraint_request([F | {"parameters": schema}]), NEEDED)
    del examples, schema
    gc.collect()
    assert kept[0]() is None
    assert kept[-1]() is not None


def test_a_result_that_ran_out_of_time_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    request = constraint_request([F | {"name": "hurried"}, G | {"parameters": UNCOMPILABLE}])
    with monkeypatch.context() as patch:
        patch.setattr(grammar, "COMPILE_SECONDS", 0)
        constrain(request, Masking())
    calls = (call("hurried", SchemaJson(SCHEMA)), call("g", AnyObject()))
    assert_spec(request, GrammarSpec(tools=calls))


LATE = {"type": "grammar", "syntax": "regex", "definition": "late"}
