"""Rules of approvals as the response repeats them."""

from typing import Any

import pytest

from server.tools.mcp.rules import ApprovalRule, read_approval, written_approval

TOOLS = (("add", True), ("read", True), ("write", False))
SOME = {"always": {"tool_names": ["read"]}, "never": {"read_only": True}}
OTHER = {"never": {"tool_names": ["add", "read", "write"]}}


def rules(*written: Any) -> list[ApprovalRule]:
    return [read_approval(each) for each in written]


@pytest.mark.parametrize(
    ("given", "together"),
    [
        ([], "never"),
        (["always"], "always"),
        (["never"], "never"),
        (["never", "always"], "always"),
        ([SOME, "always"], "always"),
        ([SOME], SOME),
        (["never", SOME], SOME),
        ([SOME, SOME], SOME),
        ([{"never": ["write", "add"]}], {"never": {"tool_names": ["add", "write"]}}),
        ([SOME, OTHER], {"never": {"tool_names": ["add"]}}),
        ([SOME, {"never": {"read_only": False}}], "always"),
    ],
)
def test_rules_are_written_as_one(given: list[Any], together: Any) -> None:
    assert written_approval(rules(*given), TOOLS) == together


@pytest.mark.parametrize("given", [["always"], ["never"], [SOME], [SOME, OTHER], [OTHER, "never"]])
def test_what_is_written_asks_the_same(given: list[Any]) -> None:
    together = read_approval(written_approval(rules(*given), TOOLS))

    for name, read_only in TOOLS:
        asked = any(rule.needs_approval(name, read_only=read_only) for rule in rules(*given))
        assert together.needs_approval(name, read_only=read_only) == asked
