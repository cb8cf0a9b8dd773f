"""Hosted tools for tests: one that takes code, one with two functions, and one with servers."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from harmony.grammar import CallableTool, FreeText, SchemaJson
from harmony.messages import FunctionTool, ToolNamespace
from harmony.tools import BROWSER, PYTHON
from server.errors import InvalidRequest
from server.tools.base import (
    Citation,
    ToolCall,
    ToolContext,
    ToolDeclaration,
    ToolEvent,
    ToolResult,
    ToolSession,
)

QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}


class SampleSession:
    """Returns the body of each call, in capitals. closed: how often it was closed."""

    def __init__(self, declaration: ToolDeclaration, context: ToolContext) -> None:
        self.declaration = declaration
        self.context = context
        self.state: Mapping[str, Any] | None = None
        self.closed = 0

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        yield ToolResult(call.content.upper())

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        return None

    async def close(self) -> None:
        self.closed += 1


class SampleTool:
    """A hosted tool. opened: its sessions, in order. failure: raised by `open`."""

    name = ""
    types: frozenset[str] = frozenset()

    def __init__(self, problem: str | None = None, failure: Exception | None = None) -> None:
        self.problem = problem
        self.failure = failure
        self.opened: list[SampleSession] = []

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> ToolSession:
        if self.failure is not None:
            raise self.failure
        session = SampleSession(self.declare(config, context), context)
        self.opened.append(session)
        return session

    def declare(self, config: Mapping[str, Any], context: ToolContext) -> ToolDeclaration:
        raise NotImplementedError


class Calculator(SampleTool):
    """Takes code, as gpt-oss's tool `python` does."""

    name = "python"
    types = frozenset({"code_interpreter"})

    def declare(self, config: Mapping[str, Any], context: ToolContext) -> ToolDeclaration:
        if "container" not in config:
            param = f"{context.param}.container"
            raise InvalidRequest(f"Invalid value for '{param}': it is required.", param=param)
        return ToolDeclaration(
            name=self.name,
            type="code_interpreter",
            item="code_interpreter_call",
            calls=(CallableTool("python", FreeText()),),
            echo={"type": "code_interpreter", "container": {"type": "auto", "file_ids": []}},
            namespace=PYTHON,
            fields={"container_id": f"cntr_{len(self.opened)}"},
        )


class Library(SampleTool):
    """Has two functions in a namespace of the system message."""

    name = "browser"
    types = frozenset({"web_search", "web_search_preview"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.configs: list[Mapping[str, Any]] = []

    def declare(self, config: Mapping[str, Any], context: ToolContext) -> ToolDeclaration:
        self.configs.append(config)
        return ToolDeclaration(
            name=self.name,
            type=config["type"],
            item="web_search_call",
            calls=(
                CallableTool("browser.search", SchemaJson(QUERY)),
                CallableTool("browser.open"),
            ),
            echo={"type": config["type"], "search_context_size": "medium"},
            namespace=ToolNamespace("browser", "Tool for browsing.", BROWSER.tools[:2]),
        )


class Servers(SampleTool):
    """Has a function `search` and a function `create` for each entry, as MCP servers do.

    The server `down` does not list them.
    """

    name = "mcp"
    types = frozenset({"mcp"})

    def declare(self, config: Mapping[str, Any], context: ToolContext) -> ToolDeclaration:
        label = config.get("server_label")
        is_down = label == "down"
        names = [] if is_down else config.get("allowed_tools", ["search", "create"])
        if not isinstance(label, str) or not isinstance(names, list):
            raise InvalidRequest("Invalid value.", param=f"{context.param}.server_label")
        if not all(isinstance(name, str) for name in names):
            raise InvalidRequest("Invalid value.", param=f"{context.param}.allowed_tools")
        recipients = {f"functions.{label}__{name}": name for name in names}
        return ToolDeclaration(
            name=f"mcp.{label}",
            type="mcp",
            item="mcp_call",
            calls=tuple(CallableTool(recipient, SchemaJson(QUERY)) for recipient in recipients),
            echo={"type": "mcp", "server_label": label, "headers": None},
            functions=tuple(
                FunctionTool(recipient.removeprefix("functions."), f"Does {name}.", QUERY)
                for recipient, name in recipients.items()
            ),
            fields={"server_label": label},
            call_fields={recipient: {"name": name} for recipient, name in recipients.items()},
            opening=({"server_label": label, "error": "HTTP 401."},) if is_down else (),
        )


def by_type(*tools: SampleTool) -> dict[str, SampleTool]:
    """The tools by each of their types, as requests name them."""
    return {kind: tool for tool in tools for kind in tool.types}
