"""Sessions with servers of the SDK, over each transport."""

from collections.abc import Callable
from typing import Any

import pytest

from server.tools.mcp.servers import Server
from tests.server.tools.mcp.conftest import call, context, result

MakeTool = Callable[..., Any]
NEVER_ASK = {"type": "mcp", "server_label": "t", "require_approval": "never"}


@pytest.fixture(params=["http", "sse", "stdio"])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "stdio":
        return Server("t", command=request.getfixturevalue("program"), configured=True)
    url = request.getfixturevalue(f"{request.param}_url")
    return Server("t", url=url, allow_private=True, configured=True)


async def test_tools_become_functions(server: Server, make_tool: MakeTool) -> None:
    tool = await make_tool(server)

    session = await tool.open(NEVER_ASK, context())

    names = [function.name for function in session.declaration.functions]
    assert names[:2] == ["t__add", "t__count"]
    assert next(each.recipient for each in session.declaration.calls) == "functions.t__add"
    await session.close()


async def test_a_call_has_a_result(server: Server, make_tool: MakeTool) -> None:
    tool = await make_tool(server)
    session = await tool.open(NEVER_ASK, context())

    added = await result(session, call("t__add", '{"a": 2, "b": 3}'))

    assert (added.text, added.failed) == ("5", False)
    assert added.fields == {"output": "5", "error": None}
    await session.close()
