"""Hosted tools for tests: their sessions do what the call's text says."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from harmony.grammar import CallableTool, FreeText
from harmony.messages import Channel, Conversation, Message
from server.generation.plan import DeclaredTool, TurnPlan
from server.tools.base import (
    ApprovalRequested,
    Citation,
    CreatedFile,
    ItemType,
    ToolCall,
    ToolContext,
    ToolDeclaration,
    ToolEvent,
    ToolProgress,
    ToolResult,
)

FILE = CreatedFile("cntr_1", "cfile_1", "a.csv", "/mnt/data/a.csv")


def declaration(
    name: str = "python",
    kind: str = "code_interpreter",
    item: ItemType = "code_interpreter_call",
    **fields: Any,
) -> ToolDeclaration:
    """The declaration of a tool whose only recipient is its name."""
    call = CallableTool(name, FreeText())
    values = {"fields": {"container_id": "cntr_1"}} | fields
    return ToolDeclaration(name, kind, item, (call,), {"type": kind}, **values)


PYTHON = declaration()
SEARCH = declaration("browser.search", "web_search", "web_search_call", fields={})
REMOTE = declaration("functions.srv__add", "mcp", "mcp_call", fields={"server_label": "srv"})


def declared(*declarations: ToolDeclaration) -> tuple[DeclaredTool, ...]:
    """The tools of a plan."""
    return tuple(
        DeclaredTool(call.recipient, call.recipient.rpartition("__")[2], "hosted", hosted=each)
        for each in declarations
        for call in each.calls
    )


def plan(*messages: Message, tools: tuple[DeclaredTool, ...] = (), **fields: Any) -> TurnPlan:
    """A plan with `python`, unless other tools are given."""
    return TurnPlan(Conversation(messages), tools=tools or declared(PYTHON), **fields)


class Session:
    """A session whose calls do what their text begins with.

    `wait`: runs until it is closed. `deaf`: ignores that, until `release` is set. `crash`: raises.
    `silent`: ends without a result. `fail`: a failed result. `file`: writes a file. `ask`: requests
    an approval. Any other text is echoed.

    calls: those that ran. ended: how many of them are over. closed: how often `close` was called.
    """

    def __init__(self, declared: ToolDeclaration = PYTHON) -> None:
        self.declaration = declared
        self.calls: list[ToolCall] = []
        self.running = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = 0
        self.closed = 0

    @property
    def state(self) -> Mapping[str, Any] | None:
        return {"calls": len(self.calls)} if self.calls else None

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        self.calls.append(call)
        self.running.set()
        try:
            yield await self._event(call.content)
        finally:
            self.ended += 1

    async def _event(self, text: str) -> ToolEvent:
        match text.partition(" ")[0]:
            case "wait":
                await asyncio.Event().wait()
            case "deaf":
                while not self.release.is_set():
                    try:
                        await self.release.wait()
                    except asyncio.CancelledError:
                        continue
            case "crash":
                raise ValueError(f"a secret: {text}")
            case "silent":
                return ToolProgress({"outputs": []})
            case "fail":
                return ToolResult("It failed.", failed=True)
            case "file":
                return ToolResult("Written.", files=(FILE,))
            case "ask":
                return ApprovalRequested({"type": "mcp_approval_request", "id": "mcpr_1"})
        fields = {"outputs": [{"type": "logs", "logs": text}]}
        return ToolResult(f"RESULT {text}", fields=fields)

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        return None

    async def close(self) -> None:
        self.closed += 1


class Tool:
    """A hosted tool that opens a `Session` for each answer, and lists them."""

    def __init__(self, opened: ToolDeclaration = PYTHON, problem: str | None = None) -> None:
        self.name = opened.name
        self.types = frozenset({opened.type})
        self.problem = problem
        self.sessions: list[Session] = []
        self.contexts: list[ToolContext] = []
        self.was_opened = asyncio.Event()
        self.started = 0
        self.stopped = 0
        self._opened = opened

    async def start(self) -> None:
        self.started += 1

    async def stop(self) -> None:
        self.stopped += 1

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> Session:
        self.contexts.append(context)
        self.sessions.append(Session(self._opened))
        self.was_opened.set()
        return self.sessions[-1]


def script(*completions: str) -> list[dict[str, Any]]:
    """Script lines for the turns of one answer: each prompt has one more result than the last."""
    lines = [
        {"prompt_contains": f"RESULT {number}", "completion": completion}
        for number, completion in enumerate(completions)
        if number
    ]
    return [*reversed(lines), {"completion": completions[0]}]


ANALYSIS = Channel.ANALYSIS
