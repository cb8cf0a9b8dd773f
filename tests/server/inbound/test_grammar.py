"""What a request wants of the samples, as a grammar."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harmony.grammar import (
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
from harmony.messages import Conversation, Effort
from server.errors import InvalidRequest
from server.generation.plan import TurnPlan
from server.inbound import constraints, grammar
from server.inbound.constraints import MAX_CHARACTERS
from server.inbound.formats import read_format
from server.inbound.grammar import (
    Constraint,
    ConstraintRequest,
    Masking,
    answer_only,
    constrain,
    constrained,
)
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import read_tools

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


def wish(
    tools: Any = None, choice: Any = None, form: Any = None, strictly: bool = True, **more: Any
) -> ConstraintRequest:
    read = read_tools(tools)
    wanted = read_tool_choice(choice, read)
    formatted = read_format(form, "text.format")
    return ConstraintRequest(read, wanted, formatted, enforce_unsaid=strictly, **more)


def custom(definition: str, syntax: str) -> dict[str, Any]:
    return SQL | {"format": {"type": "grammar", "syntax": syntax, "definition": definition}}


def call(name: str, body: Any) -> CallableTool:
    return CallableTool(f"functions.{name}", body)


def assert_spec(wanted: ConstraintRequest, spec: GrammarSpec) -> None:
    constraint = constrain(wanted, NEEDED)
    assert constraint.grammar == turn_grammar(spec)
    assert constraint.answer_grammar == answer_grammar(spec)
    reasoned = turn_grammar(replace(spec, reasoning=False))
    assert constraint.reasoned_grammar == (reasoned if spec.reasoning else None)
    assert constraint.prefill == ()


def refused(wanted: ConstraintRequest, masking: Masking = NEEDED) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        constrain(wanted, masking)
    return caught.value


@pytest.mark.parametrize("masking", [NEEDED, NEVER, CANNOT])
def test_a_plain_conversation_is_free(masking: Masking) -> None:
    assert constrain(wish(), masking) == Constraint()


def test_always_holds_a_plain_conversation_to_harmony() -> None:
    assert constrain(wish(), ALWAYS).grammar == turn_grammar(GrammarSpec())


def test_an_answer_alone_is_reasoning_and_text() -> None:
    spec = GrammarSpec(answer=RegexText(r"\S(.|\n)*"), preambles=False)
    expected = Constraint(turn_grammar(spec), answer_grammar(spec))
    assert [answer_only(masking) for masking in (NEEDED, ALWAYS)] == [expected, expected]


@pytest.mark.parametrize("masking", [NEVER, CANNOT])
def test_without_masks_not_even_an_answer_is_enforced(masking: Masking) -> None:
    assert answer_only(masking) == Constraint()


def test_masks_may_replace_those_of_a_plan() -> None:
    plan = TurnPlan(Conversation(()), grammar="a", prefill=(1,), parallel_calls=True)
    replaced = Constraint("b", "c").applied(plan)
    assert replaced == TurnPlan(Conversation(()), grammar="b", answer_grammar="c")


def test_tools_hold_calls_to_what_is_declared() -> None:
    spec = GrammarSpec(
        tools=(
            call("f", SchemaJson(SCHEMA)),
            call("g", SchemaJson(CLOSED)),
            call("sql", FreeText()),
        )
    )
    assert_spec(wish([F, G, SQL]), spec)


CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("strict", "strictly", "body"),
    [
        (None, True, SchemaJson(SCHEMA)),
        (None, False, AnyObject()),
        (True, False, SchemaJson(SCHEMA)),
        (False, True, AnyObject()),
    ],
)
def test_a_schema_is_enforced_where_it_was_promised(
    strict: bool | None, strictly: bool, body: Any
) -> None:
    tools = [F | {"strict": strict}]
    assert_spec(wish(tools, strictly=strictly), GrammarSpec(tools=(call("f", body),)))


def test_arguments_are_an_object_also_where_the_schema_does_not_say_so() -> None:
    tool = F | {"parameters": {"properties": {"a": {"type": "integer"}}}}
    body = SchemaJson({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert_spec(wish([tool]), GrammarSpec(tools=(call("f", body),)))


def test_a_schema_that_nobody_called_strict_may_fail_to_compile() -> None:
    tool = F | {"parameters": UNCOMPILABLE}
    assert_spec(wish([tool]), GrammarSpec(tools=(call("f", AnyObject()),)))


@pytest.mark.parametrize("strict", [None, False])
def test_a_schema_too_wide_to_be_followed_gives_way(strict: bool | None) -> None:
    wide = {"type": "object", "properties": {f"p{number}": {} for number in range(1000)}}
    tools = [{"type": "function", "name": "f", "parameters": wide}]
    form = {"type": "json_schema", "name": "n", "schema": wide, "strict": strict}
    spec = GrammarSpec((call("f", AnyObject()),), answer=AnyObject())
    assert_spec(wish(tools, form=form), spec)


def test_a_huge_schema_that_nobody_called_strict_is_not_tried() -> None:
    tool = F | {"parameters": {"type": "object", "description": "x" * MAX_CHARACTERS}}
    assert_spec(wish([tool]), GrammarSpec(tools=(call("f", AnyObject()),)))


@pytest.mark.parametrize(
    ("definition", "syntax", "body"),
    [
        ("[a-z]+", "regex", RegexText("[a-z]+")),
        ('start: "a"', "lark", LarkText('start: "a"')),
    ],
)
def test_a_custom_tools_grammar_is_enforced(definition: str, syntax: str, body: Any) -> None:
    wanted = wish([custom(definition, syntax)])
    assert_spec(wanted, GrammarSpec(tools=(call("sql", body),)))


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
                    "definition": "a" * MAX_CHARACTERS,
                }
            },
            "tools.0.format.definition",
        ),
    ],
)
def test_a_promise_that_cannot_be_kept_names_its_field(tool: Any, param: str) -> None:
    error = refused(wish([tool]))
    assert error.param == param
    assert "\n" not in error.message


def test_a_strict_tool_without_parameters_takes_none() -> None:
    tools = [G | {"strict": True}]
    assert_spec(wish(tools), GrammarSpec(tools=(call("g", SchemaJson(CLOSED)),)))


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", "own"])
def test_a_strict_schemas_dialect_takes_nothing_from_it(draft: str) -> None:
    schema = {"$schema": draft, **SCHEMA}
    spec = GrammarSpec((call("f", SchemaJson(SCHEMA)),), answer=SchemaJson(SCHEMA))
    strict = {"strict": True}
    form = FORMAT | strict | {"schema": schema}
    assert_spec(wish([F | strict | {"parameters": schema}], form=form), spec)


def test_no_choice_no_calls() -> None:
    assert_spec(wish([F], "none"), GrammarSpec())


def test_a_required_call() -> None:
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(wish([F], "required"), GrammarSpec(tools=tools, call_required=True))


def test_a_named_function_is_the_only_one() -> None:
    choice = {"type": "function", "name": "f"}
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(wish([F, G], choice), GrammarSpec(tools=tools, call_required=True))


def test_allowed_tools_are_the_only_ones() -> None:
    allowed = [{"type": "function", "name": "f"}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(wish([F, G], choice), GrammarSpec(tools=tools))


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (FORMAT, SchemaJson(SCHEMA)),
        (FORMAT | {"strict": True}, SchemaJson(SCHEMA)),
        (FORMAT | {"schema": UNCOMPILABLE}, AnyObject()),
        ({"type": "json_object"}, AnyObject()),
    ],
)
def test_the_answer_has_its_format(form: Any, body: Any) -> None:
    assert_spec(wish(form=form), GrammarSpec(answer=body))


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
def test_a_format_that_gives_way_keeps_the_type_of_its_root(named: Any, body: Any) -> None:
    schema = {**named, "not": {"const": 1}}
    assert_spec(wish(form=FORMAT | {"schema": schema}), GrammarSpec(answer=body))


def test_a_wide_format_keeps_the_type_of_its_root() -> None:
    wide = {"type": "object", "properties": {f"p{number}": {} for number in range(1000)}}
    form = FORMAT | {"schema": {"type": "array", "items": wide}}
    assert_spec(wish(form=form), GrammarSpec(answer=AnyJson("array")))


def test_arguments_that_give_way_stay_an_object() -> None:
    tool = F | {"parameters": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}
    assert_spec(wish([tool]), GrammarSpec(tools=(call("f", AnyObject()),)))


def test_a_strict_format_that_cannot_be_enforced_names_its_schema() -> None:
    error = refused(wish(form=FORMAT | {"schema": UNCOMPILABLE, "strict": True}))
    assert error.param == "text.format.schema"


def test_a_budget_bounds_the_reasoning() -> None:
    assert_spec(wish(budget=5), GrammarSpec(reasoning_budget=5))


def test_without_effort_or_tools_the_answer_begins_at_once() -> None:
    header = final_headers()[0]
    wanted = wish(effort=None)
    for masking in (NEVER, CANNOT):
        assert constrain(wanted, masking) == Constraint(prefill=header)
    answer = answer_grammar(GrammarSpec(reasoning=False))
    for masking in (NEEDED, ALWAYS):
        assert constrain(wanted, masking) == Constraint(answer, answer, prefill=header)


def test_without_effort_but_with_tools_only_reasoning_is_shut() -> None:
    tools = (call("f", SchemaJson(SCHEMA)),)
    assert_spec(wish([F], effort=None), GrammarSpec(tools=tools, reasoning=False))


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        (wish([F], "required"), "tool_choice"),
        (wish([F], "none"), "tool_choice"),
        (wish([F | {"strict": True}]), "tools.0.strict"),
        (
            wish([SQL | {"format": {"type": "grammar", "syntax": "regex", "definition": "a"}}]),
            "tools.0.format",
        ),
        (wish(form=FORMAT), "text.format"),
        (wish(budget=5), "reasoning.max_tokens"),
        (wish([F], effort=None), "reasoning.effort"),
    ],
)
@pytest.mark.parametrize("masking", [NEVER, CANNOT])
def test_what_only_masks_can_enforce_is_refused_without_them(
    wanted: ConstraintRequest, param: str, masking: Masking
) -> None:
    error = refused(wanted, masking)
    assert (error.param, error.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize("masking", [NEVER, CANNOT])
def test_tools_that_promise_nothing_need_no_masks(masking: Masking) -> None:
    assert constrain(wish([F, G, SQL]), masking) == Constraint()


@pytest.mark.parametrize(
    ("tools", "choice", "own"),
    [
        ([F], None, False),
        ([F, SQL], None, False),
        ([F, custom("a+", "regex")], None, True),
        ([F, custom('start: "a"', "lark")], None, True),
        ([F, custom("a+", "regex")], {"type": "function", "name": "f"}, False),
    ],
)
def test_a_clients_own_grammar_is_known_where_it_is_in_play(
    tools: Any, choice: Any, own: bool
) -> None:
    wanted = wish(tools, choice)
    assert constrain(wanted, NEEDED).own_grammar is own
    assert constrained(TurnPlan(Conversation(())), wanted, NEEDED).own_grammar is own


def test_a_plan_takes_it_all() -> None:
    wanted = wish(form=FORMAT, effort=None)
    constraint = constrain(wanted, NEEDED)
    plan = constrained(TurnPlan(Conversation(()), effort=None), wanted, NEEDED)
    assert plan.grammar == constraint.grammar
    assert plan.answer_grammar == constraint.answer_grammar
    assert plan.reasoned_grammar == constraint.reasoned_grammar
    assert plan.prefill == final_headers()[0]


def test_the_effort_does_not_matter_otherwise() -> None:
    assert constrain(wish(effort=Effort.HIGH), NEEDED) == Constraint()


def test_calls_may_follow_calls_where_the_server_and_the_request_let_them() -> None:
    parallel = Masking("needed", parallel_calls=True)
    tools = (call("f", SchemaJson(SCHEMA)),)
    constraint = constrain(wish([F]), parallel)
    assert constraint.grammar == turn_grammar(GrammarSpec(tools=tools, parallel_calls=True))
    assert constraint.parallel_calls
    assert not constrain(wish([F], parallel_calls=False), parallel).parallel_calls
    assert not constrain(wish([F]), NEEDED).parallel_calls
    assert not constrain(wish(form=FORMAT), parallel).parallel_calls


@pytest.mark.parametrize("filler", ["x", "x" * (1 << 16), 1 << 64])
def test_equal_wishes_are_compiled_once(filler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[GrammarSpec] = []

    def record(spec: GrammarSpec) -> str:
        tried.append(spec)
        return turn_grammar(spec)

    monkeypatch.setattr(grammar, "compiling", record)
    tool = F | {"name": "once", "parameters": SCHEMA | {"description": filler}}
    first, second = (constrain(wish([tool]), NEEDED) for _ in range(2))
    assert first == second
    small = filler == "x"
    assert len(tried) == (1 if small else 2)


def test_one_schema_that_fails_leaves_the_others_enforced() -> None:
    tools = [F, G | {"parameters": UNCOMPILABLE}]
    spec = GrammarSpec(tools=(call("f", SchemaJson(SCHEMA)), call("g", AnyObject())))
    assert_spec(wish(tools), spec)


def long_tool(number: int, **more: Any) -> dict[str, Any]:
    parameters = SCHEMA | {"description": str(number) * (MAX_CHARACTERS // 3)}
    return F | {"name": f"f{number}", "parameters": parameters} | more


def test_schemas_that_are_too_much_together_give_way_to_what_was_promised() -> None:
    tools = [long_tool(0), long_tool(1), long_tool(2), F | {"strict": True}]
    wanted = wish(tools)
    free = tuple(call(f"f{number}", AnyObject()) for number in range(3))
    assert_spec(wanted, GrammarSpec(tools=(*free, call("f", SchemaJson(SCHEMA)))))


def test_promises_that_are_too_much_together_are_refused() -> None:
    error = refused(wish([long_tool(number, strict=True) for number in range(3)]))
    assert error.param == "tools"
    assert "524,288 characters" in error.message


def test_no_more_is_tried_once_a_request_has_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "SETTLE_SECONDS", 0)
    tools = [F | {"name": "late"}, G | {"parameters": UNCOMPILABLE}]
    spec = GrammarSpec(tools=(call("late", AnyObject()), call("g", AnyObject())))
    assert_spec(wish(tools), spec)
    error = refused(wish([SQL | {"format": LATE}, *tools]))
    assert error.param == "tools.0.format.definition"
    assert "too long" in error.message


def test_a_wish_that_takes_too_long_costs_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def problem(text: str) -> str | None:
        nonlocal now
        if "patternProperties" not in text:
            return None
        now += grammar.SETTLE_SECONDS
        return "it takes too long"

    monkeypatch.setattr(grammar, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(constraints, "shared", lambda: SimpleNamespace(problem=problem))
    slow = F | {"name": "slow", "parameters": {"type": "object", "patternProperties": {"a": {}}}}
    calls = (call("slow", AnyObject()), call("f", SchemaJson(SCHEMA)))
    assert_spec(wish([slow, F | {"strict": True}]), GrammarSpec(tools=calls))


def test_what_was_given_up_in_a_hurry_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = wish([F | {"name": "hurried"}, G | {"parameters": UNCOMPILABLE}])
    with monkeypatch.context() as hurry:
        hurry.setattr(grammar, "SETTLE_SECONDS", 0)
        constrain(wanted, Masking())
    calls = (call("hurried", SchemaJson(SCHEMA)), call("g", AnyObject()))
    assert_spec(wanted, GrammarSpec(tools=calls))


LATE = {"type": "grammar", "syntax": "regex", "definition": "late"}
