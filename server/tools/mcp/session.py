"""One MCP server in one answer. It needs the extra `mcp`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import mcp_types as types

from harmony.grammar import AnyObject, Body, CallableTool, SchemaJson
from harmony.messages import FunctionTool
from harmony.schemas import is_wide
from harmony.tools import FUNCTIONS, about_all
from server.ids import new_id
from server.threads import Size, run, size_of
from server.tools.base import (
    ApprovalRequested,
    Citation,
    ToolCall,
    ToolContext,
    ToolDeclaration,
    ToolEvent,
    ToolProgress,
    ToolResult,
)
from server.tools.mcp.approvals import Approvals, ProposedCall, already_answered
from server.tools.mcp.arguments import InvalidArguments, read_arguments
from server.tools.mcp.connection import Connection, within
from server.tools.mcp.failures import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Failure,
    http_error,
    protocol_error,
    timed_out,
)
from server.tools.mcp.limits import MAX_DEFINITIONS, MAX_TOOLS
from server.tools.mcp.listing import ListedTool, Listing
from server.tools.mcp.results import failed_result, read_result
from server.tools.mcp.rules import written_approval
from server.tools.mcp.runtime import Runtime
from server.tools.mcp.servers import Server

logger = logging.getLogger(__name__)

MAX_PENDING = 64
"""Requests for approval that a conversation may leave unanswered; older ones are dropped."""

_CANCEL_SECONDS = 0.5


class McpSession:
    """Implements `ToolSession`. It connects to the server when the first call runs."""

    def __init__(
        self,
        runtime: Runtime,
        approvals: Approvals,
        server: Server,
        context: ToolContext,
        listing: Listing | None,
        declaration: ToolDeclaration,
    ) -> None:
        self._runtime = runtime
        self._approvals = approvals
        self._server = server
        self._context = context
        self._listing = listing
        self._declaration = declaration
        self._redactor = server.redactor
        self._tools = {_recipient(server, tool): tool for tool in _usable(server, listing)}
        self._pending: dict[str, str] = dict((context.state or {}).get("approvals", {}))
        self._connection: Connection | None = None

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        approvals: Approvals,
        server: Server,
        entry: Mapping[str, Any],
        context: ToolContext,
    ) -> "McpSession":
        """A session with a server. It has no functions if the server fails to list its tools."""
        listing: Listing | None = None
        try:
            listing = await runtime.listings.get(server, context.owner)
            tools = _usable(server, listing)
            _check_limits(tools)
            declaration = _declaration(server, entry, context, tools)
        except Failure as failure:
            logger.info("an MCP server did not list its tools: %s %d", failure.type, failure.code)
            listing = None
            message = server.redactor.clean(failure.message)
            declaration = _declaration(server, entry, context, (), error=message)
        return cls(runtime, approvals, server, context, listing, declaration)

    @property
    def declaration(self) -> ToolDeclaration:
        """See `ToolSession`."""
        return self._declaration

    @property
    def state(self) -> Mapping[str, Any] | None:
        """The requests for approval that wait for an answer. See `ToolSession`."""
        # Where there were some, an empty state replaces the stored one.
        has_state = self._pending or self._context.state
        return {"approvals": dict(self._pending)} if has_state else None

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        """Nothing: results of MCP servers have no cursors."""
        return None

    async def close(self) -> None:
        """See `ToolSession`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._runtime.release(self._server, connection)

    async def check(self, call: ToolCall, param: str) -> None:
        """Check the approval of a call before it runs. Raises InvalidRequest for `param`.

        call: with the `approval_request_id` of the client's response, and the content of the
        request for approval.
        """
        # The list may have changed, or may not be there now: that is no matter of the approval.
        name = call.recipient.removeprefix(f"{FUNCTIONS}.{self._server.label}__")
        await self._approvals.check(
            call.approval_request_id or "", self._proposed(name, call.content), self._pending, param
        )

    async def refuse(self, call: ToolCall, param: str) -> None:
        """See `ApprovalSession`."""
        if not await self._answer(call.approval_request_id or ""):
            raise already_answered(param)

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        """See `ToolSession`. The caller has checked an approval by `check`."""
        tool = self._tools.get(call.recipient)
        if tool is None:
            failure = protocol_error("The server has no such tool.", METHOD_NOT_FOUND)
            yield failed_result(failure, self._redactor)
            return
        try:
            arguments = await run(
                lambda: read_arguments(call.content, tool.parameters),
                size_of([call.content, tool.parameters]),
            )
        except InvalidArguments as error:
            yield failed_result(protocol_error(str(error), INVALID_PARAMS), self._redactor)
            return
        request_id = call.approval_request_id
        if request_id is not None and not await self._answer(request_id):
            failure = protocol_error("Another request has answered whether this call may run.")
            yield failed_result(failure, self._redactor)
            return
        needs = self._server.needs_approval(tool.name, read_only=tool.read_only)
        if needs and request_id is None:
            yield self._request_approval(tool, call)
            return
        async for event in self._events(tool, arguments):
            yield event

    async def _answer(self, request_id: str) -> bool:
        """Whether this is the only answer to a request for approval."""
        self._pending.pop(request_id, None)
        return await self._approvals.answered.claim(self._context.owner, request_id)

    def _proposed(self, name: str, arguments: str) -> ProposedCall:
        server = self._server
        return ProposedCall(self._context.owner, server.address, server.label, name, arguments)

    def _request_approval(self, tool: ListedTool, call: ToolCall) -> ApprovalRequested:
        proposed = self._proposed(tool.name, call.content)
        request_id = self._approvals.request_id(proposed, stored=self._context.stored)
        if self._context.stored:
            self._pending[request_id] = proposed.digest
            while len(self._pending) > MAX_PENDING:
                del self._pending[next(iter(self._pending))]
        return ApprovalRequested(
            {
                "id": request_id,
                "type": "mcp_approval_request",
                "server_label": self._server.label,
                "name": tool.name,
                "arguments": call.content,
            }
        )

    async def _events(
        self, tool: ListedTool, arguments: dict[str, Any]
    ) -> AsyncGenerator[ToolEvent, None]:
        """The progress and the result of a call. Closing it cancels the call."""
        changed = asyncio.Event()
        work = asyncio.create_task(self._result(tool, arguments, changed.set))
        work.add_done_callback(lambda _: changed.set())
        try:
            while True:
                await changed.wait()
                changed.clear()
                if work.done():
                    yield work.result()
                    return
                yield ToolProgress()
        finally:
            if not work.done():
                work.cancel()
                self._runtime.keep(work)
                await asyncio.wait({work}, timeout=_CANCEL_SECONDS)

    async def _result(
        self, tool: ListedTool, arguments: dict[str, Any], progress: Callable[[], None]
    ) -> ToolResult:
        seconds = min(self._context.timeout, self._server.timeout or self._context.timeout)
        too_late = timed_out(seconds, "The call")
        try:
            result = await within(seconds, self._call(tool, arguments, progress), too_late)
        except Failure as failure:
            if failure.code in (INVALID_PARAMS, METHOD_NOT_FOUND) or self._connection is None:
                # The tool may be gone, or the server speaks in another way than before.
                self._runtime.listings.forget(self._server, self._context.owner)
            if failure is too_late:
                failure = self._reported() or failure
            return failed_result(failure, self._redactor)
        return await run(lambda: read_result(result, self._redactor), Size.MEDIUM)

    def _reported(self) -> Failure | None:
        """The HTTP error for which the transport of old servers waits, as if there were none."""
        exchange = self._connection.exchange if self._connection else None
        if exchange is None or exchange.status is None:
            return None
        return http_error(exchange.status, exchange.reason)

    async def _call(
        self, tool: ListedTool, arguments: dict[str, Any], progress: Callable[[], None]
    ) -> types.CallToolResult:
        """Raises Failure.

        A server that has forgotten the session gets the call again in a new one, as the protocol
        demands: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
        """
        connection = await self._connected()
        try:
            return await connection.call_tool(tool.name, arguments, progress)
        except Failure:
            if not connection.exchange.forgotten:
                raise
        await self.close()
        return await (await self._connected()).call_tool(tool.name, arguments, progress)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            assert self._listing is not None
            self._connection = await self._runtime.connect(self._server, self._listing.negotiated)
        return self._connection


def _usable(server: Server, listing: Listing | None) -> tuple[ListedTool, ...]:
    tools = listing.tools if listing else ()
    return tuple(tool for tool in tools if server.allows(tool.name, read_only=tool.read_only))


def _check_limits(tools: tuple[ListedTool, ...]) -> None:
    if len(tools) > MAX_TOOLS or sum(tool.size for tool in tools) > MAX_DEFINITIONS:
        raise protocol_error(
            f"The server has more than {MAX_TOOLS} tools, or definitions of more than"
            f" {MAX_DEFINITIONS:,} bytes. Name the tools to use in 'allowed_tools'."
        )


def _recipient(server: Server, tool: ListedTool) -> str:
    return f"{FUNCTIONS}.{server.label}__{tool.name}"


def _declaration(
    server: Server,
    entry: Mapping[str, Any],
    context: ToolContext,
    tools: tuple[ListedTool, ...],
    error: str | None = None,
) -> ToolDeclaration:
    return ToolDeclaration(
        name=f"mcp.{server.label}",
        type="mcp",
        item="mcp_call",
        calls=tuple(CallableTool(_recipient(server, tool), _body(tool)) for tool in tools),
        echo=_echo(server, entry, tools),
        functions=about_all(
            [_function(server, tool) for tool in tools], f"{server.label}__", server.description
        ),
        fields={"server_label": server.label},
        call_fields={_recipient(server, tool): {"name": tool.name} for tool in tools},
        approvals=frozenset(
            _recipient(server, tool)
            for tool in tools
            if server.needs_approval(tool.name, read_only=tool.read_only)
        ),
        opening=_opening(server, context, tools, error),
        size=sum(tool.size for tool in tools),
    )


def _body(tool: ListedTool) -> Body:
    if tool.parameters.keys() == {"type"} or is_wide(tool.parameters):
        return AnyObject()
    return SchemaJson(tool.parameters)


def _function(server: Server, tool: ListedTool) -> FunctionTool:
    name = f"{server.label}__{tool.name}"
    return FunctionTool(name, tool.item.get("description"), tool.parameters)


def _echo(
    server: Server, entry: Mapping[str, Any], tools: tuple[ListedTool, ...]
) -> dict[str, Any]:
    """The entry without secrets: of the URL, only the origin.

    The rule of approvals is the one that holds, as the operator may have one, too.
    """
    listed = [(tool.name, tool.read_only) for tool in tools]
    return {
        "type": "mcp",
        "server_label": server.label,
        "server_url": server.origin if entry.get("server_url") is not None else None,
        "server_description": server.description,
        "allowed_tools": entry.get("allowed_tools"),
        "require_approval": written_approval(server.approvals, listed),
        "headers": None,
    }


def _opening(
    server: Server, context: ToolContext, tools: tuple[ListedTool, ...], error: str | None
) -> tuple[Mapping[str, Any], ...]:
    """The item with the list, unless the context has it already."""
    listed = [tool.item for tool in tools]
    for item in reversed(context.history):
        if item.get("type") == "mcp_list_tools" and item.get("server_label") == server.label:
            if error is None and _names(item.get("tools")) == _names(listed):
                return ()
            break
    item = {
        "id": new_id("mcpl"),
        "type": "mcp_list_tools",
        "server_label": server.label,
        "tools": listed,
    }
    return ({**item, "error": error} if error is not None else item,)


def _names(tools: Any) -> list[tuple[Any, Any]]:
    if not isinstance(tools, list):
        return []
    return [
        (tool.get("name"), tool.get("input_schema")) for tool in tools if isinstance(tool, Mapping)
    ]
