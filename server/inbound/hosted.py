"""Opens the hosted tools that a request names.

A request of either API names a hosted tool by the `type` of an entry of `tools`. Chat has further
forms (`server.inbound.hosted_chat`). Each answer of a request has sessions of its own.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from server.generation.hosted_calls import call_timeout
from server.inbound.tools import OpenedTool
from server.schemas.fields import array, declaration, invalid, mapping, required, string
from server.schemas.limits import MAX_TOOLS
from server.tools.base import HostedTool, ToolContext, ToolSession
from server.tools.closing import close_sessions
from server.tools.mcp.limits import check_definitions, check_servers
from server.tools.mcp.servers import BUILT_IN_LABELS
from server.tools.registry import unavailable

Sessions = tuple[ToolSession, ...]


@dataclass(frozen=True, slots=True)
class HostedEntry:
    """A request's entry that names a hosted tool.

    config: the entry, whose `type` is one of the tool's. param: the request's field that holds it.
    """

    tool: HostedTool
    config: Mapping[str, Any]
    param: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """What the sessions of one answer have in common.

    owner, answer_id, include, stored, history: as in `ToolContext`. timeouts: seconds for one call,
    by the name of the tool or of a declaration. states: the states that the sessions of the
    previous turn stored, by the name of their declaration.
    """

    owner: str
    answer_id: str
    timeouts: Mapping[str, float]
    states: Mapping[str, Mapping[str, Any]]
    include: frozenset[str] = frozenset()
    stored: bool = False
    history: tuple[Mapping[str, Any], ...] = ()

    def of(self, entry: HostedEntry) -> ToolContext:
        """The context of one session."""
        name = _declared_name(entry)
        return ToolContext(
            self.owner,
            self.answer_id,
            entry.param,
            call_timeout(self.timeouts, name),
            self.states.get(name),
            self.include,
            self.stored,
            self.history,
        )


def _declared_name(entry: HostedEntry) -> str:
    """The name of the declaration of the entry's session.

    MCP servers each have one, and with it a state and a time limit of their own.
    """
    name = entry.tool.name
    return f"{name}.{entry.config.get('server_label')}" if _is_mcp(entry) else name


def hosted_entries(value: Any, tools: Mapping[str, HostedTool]) -> tuple[HostedEntry, ...]:
    """The entries of a request's `tools` that name hosted tools; null has none.

    tools: the server's hosted tools, by the types that name them. Other kinds of entries are not
    read. Raises InvalidRequest naming the field of an entry without a type.
    """
    if value is None or not tools:
        return ()
    entries: list[HostedEntry] = []
    for index, item in enumerate(array(value, "tools", MAX_TOOLS)):
        where = f"tools.{index}"
        config = _alias(mapping(item, where))
        kind = required(config, "type", where, string)
        if kind in tools:
            declaration(config, where)
            entries.append(HostedEntry(tools[kind], config, where))
    return tuple(entries)


def _alias(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of the built-in tool that one of vLLM's labels of `mcp` stands for, if any.

    A public URL means a server of the client's own; vLLM's clients send a local one.
    """
    url = item.get("server_url")
    if item.get("type") != "mcp" or (isinstance(url, str) and url.startswith("https:")):
        return item
    label = item.get("server_label")
    return BUILT_IN_LABELS.get(label, item) if isinstance(label, str) else item


@asynccontextmanager
async def opened(
    entries: Sequence[HostedEntry], context: AnswerContext, answers: int = 1
) -> AsyncGenerator[tuple[Sessions, ...], None]:
    """The sessions of each answer, in the order of `entries`. An exception closes them.

    Raises InvalidRequest for a tool that is named twice or cannot be used on this machine, and the
    errors of `HostedTool.open`.
    """
    _check(entries)
    sessions = await _open(entries, context, answers) if entries else ((),) * answers
    try:
        _check_definitions(entries, sessions[0])
        yield sessions
    except BaseException:
        await close_sessions(chain.from_iterable(sessions), context.answer_id)
        raise


def opened_tools(entries: Iterable[HostedEntry], sessions: Sessions) -> tuple[OpenedTool, ...]:
    """The declarations of the sessions of one answer."""
    return tuple(
        OpenedTool(session.declaration, entry.param)
        for entry, session in zip(entries, sessions, strict=True)
    )


def _check(entries: Iterable[HostedEntry]) -> None:
    seen: set[str] = set()
    labels: list[Any] = []
    for entry in entries:
        tool = entry.tool
        if tool.problem is not None:
            raise unavailable(tool.name, tool.problem, entry.param)
        # MCP servers are entries of one tool.
        if tool.name in seen and not _is_mcp(entry):
            problem = f"the tool of '{entry.config['type']}' is named twice"
            raise invalid(entry.param, problem, "duplicate_tool")
        seen.add(tool.name)
        if _is_mcp(entry):
            labels.append(entry.config.get("server_label"))
            check_servers(labels, entry.param)


def _check_definitions(entries: Sequence[HostedEntry], sessions: Sessions) -> None:
    pairs = zip(entries, sessions, strict=True)
    servers = [session.declaration for entry, session in pairs if _is_mcp(entry)]
    if servers:
        check_definitions(servers, "tools")


def _is_mcp(entry: HostedEntry) -> bool:
    return "mcp" in entry.tool.types


async def _open(
    entries: Sequence[HostedEntry], context: AnswerContext, answers: int
) -> tuple[Sessions, ...]:
    """The sessions of each answer. All are opened at the same time."""
    done: dict[tuple[int, int], ToolSession] = {}

    async def open_one(answer: int, index: int, entry: HostedEntry) -> None:
        done[answer, index] = await entry.tool.open(entry.config, context.of(entry))

    try:
        async with asyncio.TaskGroup() as tasks:
            for answer in range(answers):
                for index, entry in enumerate(entries):
                    tasks.create_task(open_one(answer, index, entry))
    except BaseException as error:
        await close_sessions(done.values(), context.answer_id)
        if isinstance(error, BaseExceptionGroup):
            raise error.exceptions[0] from None
        raise
    return tuple(
        tuple(done[answer, index] for index in range(len(entries))) for answer in range(answers)
    )
