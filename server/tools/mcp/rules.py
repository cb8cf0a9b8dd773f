"""Which tools of a server a request may use, and which of them need the client's approval.

Source: https://platform.openai.com/docs/guides/tools-connectors-mcp
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_NAMES = 1024
"""Names in one filter."""


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """A set of tools: those that meet all conditions.

    names: the names of the tools, None for any. read_only: whether the server annotates the tool
    as one that only reads, None for both.
    """

    names: frozenset[str] | None = None
    read_only: bool | None = None

    def matches(self, name: str, *, read_only: bool) -> bool:
        """Whether the set contains a tool."""
        return (self.names is None or name in self.names) and (
            self.read_only is None or self.read_only == read_only
        )


EVERY_TOOL = ToolFilter()
NO_TOOL = ToolFilter(frozenset())


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Which calls need the client's approval: those in `always`, and those not in `never`."""

    always: ToolFilter = NO_TOOL
    never: ToolFilter = NO_TOOL

    def needs_approval(self, name: str, *, read_only: bool) -> bool:
        """Whether a call of a tool needs the client's approval."""
        return self.always.matches(name, read_only=read_only) or not self.never.matches(
            name, read_only=read_only
        )


ALWAYS = ApprovalRule()
NEVER = ApprovalRule(never=EVERY_TOOL)


class InvalidRule(ValueError):
    """A rule that cannot be read. field: where, relative to the rule; the message says why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def read_filter(value: Any) -> ToolFilter:
    """A filter from a list of names, or from `{tool_names, read_only}`. Raises InvalidRule."""
    if isinstance(value, list):
        return ToolFilter(_names(value, ""))
    if not isinstance(value, Mapping):
        raise InvalidRule("", "expected an array of names or an object")
    names, read_only = value.get("tool_names"), value.get("read_only")
    if read_only is not None and not isinstance(read_only, bool):
        raise InvalidRule(".read_only", "expected a boolean")
    if names is None and read_only is None:
        raise InvalidRule("", "expected 'tool_names', 'read_only' or both")
    return ToolFilter(None if names is None else _names(names, ".tool_names"), read_only)


def read_approval(value: Any) -> ApprovalRule:
    """A rule from `always`, `never` or `{always: FILTER, never: FILTER}`. Raises InvalidRule."""
    if value == "always":
        return ALWAYS
    if value == "never":
        return NEVER
    if not isinstance(value, Mapping):
        raise InvalidRule("", "expected 'always', 'never' or an object")
    return ApprovalRule(_part(value, "always"), _part(value, "never"))


def written_approval(
    rules: Sequence[ApprovalRule], tools: Iterable[tuple[str, bool]]
) -> str | dict[str, Any]:
    """What several rules ask together, in the form that `read_approval` reads.

    tools: the name of each tool that may be used, and whether it only reads. They are named where
    the rules differ: filters of names and of annotations cannot be joined to one.
    """
    asking = {rule for rule in rules if rule != NEVER}
    if not asking:
        return "never"
    if ALWAYS in asking:
        return "always"
    if len(asking) == 1:
        return _written_rule(asking.pop())
    free = [
        name
        for name, read_only in tools
        if not any(rule.needs_approval(name, read_only=read_only) for rule in asking)
    ]
    return {"never": {"tool_names": free}} if free else "always"


def _written_rule(rule: ApprovalRule) -> dict[str, Any]:
    parts = {"always": rule.always, "never": rule.never}
    return {name: _written_filter(part) for name, part in parts.items() if part != NO_TOOL}


def _written_filter(part: ToolFilter) -> dict[str, Any]:
    names = {} if part.names is None else {"tool_names": sorted(part.names)}
    return names if part.read_only is None else {**names, "read_only": part.read_only}


def _part(value: Mapping[str, Any], name: str) -> ToolFilter:
    if value.get(name) is None:
        return NO_TOOL
    try:
        return read_filter(value[name])
    except InvalidRule as error:
        raise InvalidRule(f".{name}{error.field}", str(error)) from None


def _names(value: Any, field: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidRule(field, "expected an array of strings")
    if len(value) > MAX_NAMES:
        raise InvalidRule(field, f"expected at most {MAX_NAMES} names")
    return frozenset(value)
