import pytest

from harmony.messages import Conversation
from server.generation.plan import DeclaredTool, TurnPlan

DECLARED = (
    DeclaredTool("functions.f", "f"),
    DeclaredTool("functions.ns__g", "g", "custom", namespace="ns"),
)


@pytest.mark.parametrize("tool", DECLARED)
def test_a_recipient_is_the_tool_that_was_declared_for_it(tool: DeclaredTool) -> None:
    assert TurnPlan(Conversation(()), tools=DECLARED).tool(tool.recipient) == tool


@pytest.mark.parametrize(
    ("recipient", "name"),
    [("functions.h", "h"), ("browser.search", "browser.search"), ("python", "python")],
)
def test_a_tool_that_was_never_declared_is_a_function(recipient: str, name: str) -> None:
    tool = TurnPlan(Conversation(()), tools=DECLARED).tool(recipient)
    assert tool == DeclaredTool(recipient, name, "function")
