"""`tools` and `tool_choice` of both APIs."""

import logging
from typing import Any

import pytest

from harmony.messages import FunctionTool
from server.errors import InvalidRequest
from server.generation.plan import DeclaredTool
from server.inbound.tool_choice import ToolChoice, read_tool_choice
from server.inbound.tools import OpenedTool, Tools, read_tools
from server.schemas.limits import MAX_DECLARATION, MAX_LISTED, MAX_TOOLS
from tests.server.tools.hosted import declaration

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object"},
    "strict": True,
}
CUSTOM: dict[str, Any] = {"type": "custom", "name": "sql"}


def failing_param(function: Any, *args: Any) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        function(*args)
    return caught.value.param


def test_a_function_is_declared() -> None:
    (tool,) = read_tools([WEATHER]).served
    assert tool.declared == DeclaredTool("functions.weather", "weather")
    assert tool.function == FunctionTool("weather", "The weather.", {"type": "object"})
    assert tool.strict is True


@pytest.mark.parametrize("parameters", [None, {}])
def test_a_function_may_have_no_parameters(parameters: Any) -> None:
    (tool,) = read_tools([WEATHER | {"parameters": parameters}]).served
    assert tool.function.parameters is None


def test_nested_and_flat_tools_are_the_same() -> None:
    nested = {key: value for key, value in WEATHER.items() if key != "type"}
    (chat,) = read_tools([{"type": "function", "function": nested}]).served
    (flat,) = read_tools([WEATHER]).served
    assert (chat.declared, chat.function, chat.strict) == (
        flat.declared,
        flat.function,
        flat.strict,
    )
    assert chat.param == "tools.0.function"


def test_all_tools_are_in_one_namespace() -> None:
    tools = read_tools([WEATHER, CUSTOM])
    (namespace,) = tools.namespaces
    assert namespace.name == "functions"
    assert [tool.name for tool in namespace.tools] == ["weather", "sql"]


@pytest.mark.parametrize("nothing", [None, []])
def test_no_tools_have_no_namespace(nothing: Any) -> None:
    assert read_tools(nothing) == Tools()
    assert read_tools(nothing).namespaces == ()


def test_a_custom_tool_takes_free_text() -> None:
    (tool,) = read_tools([CUSTOM | {"format": {"type": "text"}}]).served
    assert tool.declared.kind == "custom"
    assert tool.function.freeform
    assert tool.input_grammar is None


@pytest.mark.parametrize(
    "form",
    [
        {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"},
        {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}},
    ],
    ids=["responses", "chat"],
)
@pytest.mark.parametrize("description", [None, "Asks."])
def test_a_custom_tools_grammar_is_part_of_its_description(
    form: Any, description: str | None
) -> None:
    (tool,) = read_tools([CUSTOM | {"format": form, "description": description}]).served
    assert tool.input_grammar == {"syntax": "regex", "definition": "[a-z]+"}
    text = tool.function.description or ""
    assert text.endswith("The input must match this regex grammar:\n[a-z]+")
    assert text.startswith(description or "The input")


def test_tools_of_a_namespace_have_its_prefix() -> None:
    tools = read_tools([{"type": "namespace", "name": "mail", "tools": [WEATHER, CUSTOM]}])
    assert tools.declared == (
        DeclaredTool("functions.mail__weather", "weather", "function", "mail"),
        DeclaredTool("functions.mail__sql", "sql", "custom", "mail"),
    )
    assert [tool.function.name for tool in tools.served] == ["mail__weather", "mail__sql"]


@pytest.mark.parametrize(("name", "prefix"), [("mail", "mail__"), ("mail_", "mail_")])
def test_the_description_of_a_namespace_stands_at_its_first_tool(name: str, prefix: str) -> None:
    namespace = {"type": "namespace", "name": name, "description": "Of mail."}
    tools = read_tools([CUSTOM, namespace | {"tools": [WEATHER, CUSTOM]}])
    assert [tool.function.description for tool in tools.served] == [
        None,
        f"The weather.\nAbout all tools {prefix}*: Of mail.",
        None,
    ]


def test_unsupported_kinds_are_left_out_and_logged(caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    tools = read_tools([{"type": "web_search"}, WEATHER, {"type": "web_search"}])
    assert tools.unserved_kinds == ("web_search",)
    assert [tool.declared.name for tool in tools.served] == ["weather"]
    assert "web_search" in caplog.text


def test_the_name_of_an_unsupported_kind_is_shortened(caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    kind = "a\nforged line" + "x" * 100_000
    tools = read_tools([{"type": kind}])
    assert tools.unserved_kinds == (kind[:64],)
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 200


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ({}, "tools"),
        (["x"], "tools.0"),
        ([{}], "tools.0.type"),
        ([{"type": "function"}], "tools.0.name"),
        ([{"type": "function", "function": {"name": 1}}], "tools.0.function.name"),
        ([WEATHER, WEATHER | {"name": "a b"}], "tools.1.name"),
        ([WEATHER | {"name": ""}], "tools.0.name"),
        ([WEATHER | {"name": "a" * 129}], "tools.0.name"),
        ([WEATHER | {"name": "météo"}], "tools.0.name"),
        ([{"type": "namespace", "name": "a\n", "tools": []}], "tools.0.name"),
        ([WEATHER | {"description": 1}], "tools.0.description"),
        ([WEATHER | {"parameters": "{}"}], "tools.0.parameters"),
        ([WEATHER | {"strict": "yes"}], "tools.0.strict"),
        ([WEATHER, WEATHER], "tools.1.name"),
        ([CUSTOM | {"format": {"type": "xml"}}], "tools.0.format.type"),
        ([CUSTOM | {"format": {"type": "grammar", "syntax": "peg"}}], "tools.0.format.syntax"),
        (
            [CUSTOM | {"format": {"type": "grammar", "grammar": {"syntax": "peg"}}}],
            "tools.0.format.grammar.syntax",
        ),
        (
            [CUSTOM | {"format": {"type": "grammar", "syntax": "lark"}}],
            "tools.0.format.definition",
        ),
        ([{"type": "namespace", "name": "n"}], "tools.0.tools"),
        ([{"type": "namespace", "name": "n", "description": 1}], "tools.0.description"),
        (
            [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}],
            "tools.0.tools.0.type",
        ),
    ],
)
def test_an_error_names_the_bad_field(tools: Any, param: str) -> None:
    assert failing_param(read_tools, tools) == param


TOOLS = read_tools(
    [
        WEATHER,
        CUSTOM,
        WEATHER | {"name": "x__y"},
        {"type": "namespace", "name": "n", "tools": [WEATHER]},
        {"type": "mcp"},
    ]
)


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        (
            {"type": "function", "name": "weather"},
            ToolChoice("required", frozenset({"functions.weather"})),
        ),
        (
            {"type": "function", "function": {"name": "weather"}},
            ToolChoice("required", frozenset({"functions.weather"})),
        ),
        (
            {"type": "function", "name": "weather", "namespace": "n"},
            ToolChoice("required", frozenset({"functions.n__weather"})),
        ),
        (
            {"type": "function", "function": {"name": "n__weather"}},
            ToolChoice("required", frozenset({"functions.n__weather"})),
        ),
        (
            {"type": "custom", "name": "sql"},
            ToolChoice("required", frozenset({"functions.sql"})),
        ),
        (
            {"type": "function", "name": "sql"},
            ToolChoice("required", frozenset({"functions.sql"})),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "weather"}, {"type": "mcp"}],
            },
            ToolChoice("auto", frozenset({"functions.weather"})),
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "custom", "custom": {"name": "sql"}}],
                },
            },
            ToolChoice("required", frozenset({"functions.sql"})),
        ),
    ],
)
def test_a_tool_choice_is_read(value: Any, choice: ToolChoice) -> None:
    assert read_tool_choice(value, TOOLS) == choice


IN_NAMESPACE = {"type": "function", "name": "weather", "namespace": "n"}


@pytest.mark.parametrize(
    ("value", "echo"),
    [
        (None, "auto"),
        ("required", "required"),
        (
            {"type": "custom", "custom": {"name": "sql"}, "other": 1},
            {"type": "custom", "name": "sql"},
        ),
        (IN_NAMESPACE, IN_NAMESPACE),
        (
            {"type": "allowed_tools", "tools": [IN_NAMESPACE, {"type": "mcp"}]},
            {"type": "allowed_tools", "mode": "auto", "tools": [IN_NAMESPACE]},
        ),
    ],
)
def test_a_tool_choice_is_shown_as_responses_has_it(value: Any, echo: Any) -> None:
    assert read_tool_choice(value, TOOLS).echo == echo


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("sometimes", "tool_choice"),
        (3, "tool_choice"),
        ({"type": "web_search_preview"}, "tool_choice.type"),
        ({"type": "function", "name": "other"}, "tool_choice.name"),
        ({"type": "function", "function": {"name": "other"}}, "tool_choice.function.name"),
        ({"type": "custom", "name": "weather"}, "tool_choice.name"),
        ({"type": "function", "name": "sql", "namespace": "n"}, "tool_choice.name"),
        ({"type": "function", "name": "y", "namespace": "x"}, "tool_choice.name"),
        ({"type": "allowed_tools", "mode": "never", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "tool_choice.tools"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}]},
            "tool_choice.tools.0.type",
        ),
    ],
)
def test_an_error_names_the_bad_field_of_a_tool_choice(value: Any, param: str) -> None:
    assert failing_param(read_tool_choice, value, TOOLS) == param


def test_a_call_cannot_be_required_without_a_tool() -> None:
    assert failing_param(read_tool_choice, "required", Tools()) == "tool_choice"


class Counted(dict[str, Any]):
    """Counts how often a member is looked up."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)


def test_the_calls_of_a_server_are_read_once_for_all_entries_of_a_choice() -> None:
    fields = Counted({"functions.srv__add": {"name": "add"}})
    server = {"server_label": "srv"}
    declared = declaration(
        "functions.srv__add", "mcp", "mcp_call", fields=server, call_fields=fields
    )
    entries = [{"type": "mcp", "name": "add"} | server] * 100
    choice = {"type": "allowed_tools", "tools": entries}
    read = read_tool_choice(choice, Tools(hosted=(OpenedTool(declared, "tools.0"),)))
    assert read.allowed == frozenset({"functions.srv__add"})
    assert fields.reads == 1


@pytest.mark.parametrize("name", ["files.read", "mcp__github__create-issue", "a" * 128])
def test_names_of_the_model_context_protocol_are_accepted(name: str) -> None:
    (tool,) = read_tools([WEATHER | {"name": name}]).served
    assert (tool.declared.recipient, tool.function.name) == (f"functions.{name}", name)


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{"type": "web_search"}] * (MAX_TOOLS + 1), "tools"),
        (
            [
                {
                    "type": "namespace",
                    "name": name,
                    "tools": [CUSTOM | {"name": f"t{n}"} for n in range(2100)],
                }
                for name in "ab"
            ],
            "tools",
        ),
        ([{"type": f"kind_{n}"} for n in range(MAX_LISTED + 1)], "tools"),
        ([{**CUSTOM, "description": "x" * MAX_DECLARATION}], "tools"),
    ],
    ids=["tools", "tools in namespaces", "kinds", "text"],
)
def test_the_number_and_size_of_tools_are_limited(tools: list[Any], param: str) -> None:
    assert failing_param(read_tools, tools) == param


def test_as_many_tools_and_kinds_as_the_limits_name_are_accepted() -> None:
    namespace = {
        "type": "namespace",
        "name": "n",
        "tools": [CUSTOM | {"name": f"t{n}"} for n in range(MAX_TOOLS)],
    }
    kinds = [{"type": f"kind_{n}"} for n in range(MAX_LISTED)]
    read = read_tools([namespace, *kinds])
    assert len(read.served) == MAX_TOOLS
    assert len(read.unserved_kinds) == MAX_LISTED


def test_the_size_of_a_tool_choice_is_limited() -> None:
    tools = read_tools([CUSTOM])
    choice = {"type": "custom", "name": "sql", "other": "x" * MAX_DECLARATION}
    assert failing_param(read_tool_choice, choice, tools) == "tool_choice"
