"""The tools of a server as the model sees them."""

from collections.abc import Callable
from typing import Any

import pytest

from harmony.grammar import GrammarSpec, turn_grammar
from harmony.messages import (
    Author,
    Conversation,
    DeveloperContent,
    Message,
    Role,
    SystemContent,
    ToolNamespace,
)
from harmony.render import render
from harmony.tokenizer import decode
from server.errors import InvalidRequest
from server.inbound.grammar_sandbox import shared
from server.tools.base import ToolDeclaration
from server.tools.mcp.limits import MAX_DEFINITIONS, check_definitions, check_servers
from server.tools.mcp.servers import Server
from tests.harmony.conftest import Library, library, ranks_folder
from tests.server.tools.mcp.conftest import context

__all__ = ["library", "ranks_folder"]  # fixtures

MakeTool = Callable[..., Any]
ENTRY = {"type": "mcp", "server_label": "t", "require_approval": "never"}


def prompt(declaration: ToolDeclaration) -> list[Message]:
    namespace = ToolNamespace("functions", tools=declaration.functions)
    return [
        Message(Author(Role.SYSTEM), SystemContent(start_date="2026-11-22")),
        Message(Author(Role.DEVELOPER), DeveloperContent("Be brief.", (namespace,))),
        Message(Author(Role.USER), "What is 2 + 3?"),
    ]


async def test_a_server_is_rendered_as_the_library_renders_it(
    http_url: str, make_tool: MakeTool, library: Library
) -> None:
    tool = await make_tool(Server("t", url=http_url, allow_private=True))
    entry = {**ENTRY, "allowed_tools": ["add", "count", "slow", "hang"]}

    messages = prompt((await tool.open(entry, context())).declaration)

    assert list(render(Conversation(tuple(messages)))) == library.render(messages)


async def test_an_injected_description_stays_a_comment(
    hostile: Callable[..., Server], make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/inject"))
    entry = {**ENTRY, "server_label": "h"}

    ids = render(Conversation(tuple(prompt((await tool.open(entry, context())).declaration))))

    text = decode(list(ids))
    declared = text[text.index("// Ignore") : text.index("type h__add")]
    assert all(line.startswith("//") for line in declared.strip().split("\n"))
    # Three messages and the header of the next one: the description added no control token.
    assert list(ids).count(200006) == 4


async def test_the_grammar_of_the_tools_compiles(http_url: str, make_tool: MakeTool) -> None:
    tool = await make_tool(Server("t", url=http_url, allow_private=True))

    declaration = (await tool.open(ENTRY, context())).declaration

    grammar = turn_grammar(GrammarSpec(tools=declaration.calls))
    assert shared().problem(grammar) is None


def declaration(functions: int, size: int) -> ToolDeclaration:
    made: Any = tuple(object() for _ in range(functions))
    return ToolDeclaration("mcp.a", "mcp", "mcp_call", (), {}, functions=made, size=size)


def test_the_servers_of_a_request_are_limited() -> None:
    check_servers([f"s{n}" for n in range(64)], "tools")

    with pytest.raises(InvalidRequest) as error:
        check_servers([f"s{n}" for n in range(65)], "tools")

    assert (error.value.param, error.value.code) == ("tools", "too_many_mcp_servers")


def test_a_label_names_one_server_of_a_request() -> None:
    with pytest.raises(InvalidRequest) as error:
        check_servers(["a", None, None, "a"], "tools")

    assert error.value.code == "duplicate_tool"


def test_the_tools_of_a_request_are_limited() -> None:
    check_definitions([declaration(64, 0)] * 2, "tools")

    with pytest.raises(InvalidRequest, match="128 tools") as error:
        check_definitions([declaration(65, 0)] * 2, "tools")

    assert (error.value.param, error.value.code) == ("tools", "too_many_mcp_tools")


def test_the_definitions_of_a_request_are_limited() -> None:
    check_definitions([declaration(1, MAX_DEFINITIONS)], "tools")

    with pytest.raises(InvalidRequest, match="1,048,576 bytes") as error:
        check_definitions([declaration(1, MAX_DEFINITIONS)] * 2, "tools")

    assert (error.value.param, error.value.code) == ("tools", "too_many_mcp_tools")
