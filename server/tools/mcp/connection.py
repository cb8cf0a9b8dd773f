"""A connection to an MCP server, by the official SDK. It needs the extra `mcp`."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeVar

import mcp_types as types
from mcp.client import session as client_session
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from server.tools.mcp.failures import (
    CONNECTION_CLOSED,
    Failure,
    http_error,
    protocol_error,
)
from server.tools.mcp.http import Exchange
from server.tools.mcp.leniency import mended
from server.tools.mcp.message_size import MAX_RESPONSE, TOO_LARGE

logger = logging.getLogger(__name__)

PING_SECONDS = 10.0
"""Seconds in which a server that works answers a ping."""

PROBE_SECONDS = 3.0
"""Seconds in which a server says which protocol it has; one that does not is taken for an old one.

By default, the SDK would wait for as long as a list of tools may take. A server that starts more
slowly is asked again where it refuses the handshake of old ones.
"""

CLOSE_SECONDS = 0.5
"""Seconds in which `close` ends a session in order; the connection is cut afterwards."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds before a call is sent again with a state; the pause doubles each time."""

_NAME = "gpt-oss-server"
_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")  # the SDK's sessions log as "client"
CLOSED = "Connection closed"
"""The SDK's error for requests on a transport that ended."""
# The SDK's errors for a status without an error of JSON-RPC in the body, and for what it leads to.
_STAND_INS = frozenset(
    {"Server returned an error response", "Not Found", "Session terminated", CLOSED}
)
_MAX_PAGES = 64

Result = TypeVar("Result", bound=BaseModel)
T = TypeVar("T")
Progress = Callable[[], None]
# By default, a result would be validated as each of the two.
_CALL_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    Annotated[types.CallToolResult | types.InputRequiredResult, Field(union_mode="left_to_right")]
)
TransportKind = Literal["http", "sse", "stdio"]


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What a connection and its server agreed on, so that the next one need not try again.

    transport: the transport that the server has. discovered: the answer of a server whose protocol
    has no handshake, None for others.
    """

    transport: TransportKind
    discovered: types.DiscoverResult | None = None


def prepare_sdk() -> None:
    """Set what the SDK has no arguments for, for the whole process.

    Its loggers are off: they write what servers sent, and URLs with secrets. A server has
    `PROBE_SECONDS` to say which protocol it has.
    """
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    client_session.DISCOVER_TIMEOUT_SECONDS = PROBE_SECONDS


class Connection:
    """One client of one server.

    A task of its own enters and leaves the client, because its cancel scopes belong to one task.
    The requests are sent by the tasks of their callers. label: that of the server. list_changed:
    set, and replaced by another event, when the server says that its tools have changed; also set
    when a program ends.
    """

    def __init__(
        self,
        transport: AbstractAsyncContextManager[Any],
        exchange: Exchange,
        kind: TransportKind,
        known: Negotiated | None,
        label: str,
    ) -> None:
        self.exchange = exchange
        self.list_changed = asyncio.Event()
        self._kind: TransportKind = kind
        self._label = label
        self._closing = asyncio.Event()
        # Of each request that is not answered yet: resolved when it ends.
        self._requests: set[asyncio.Future[None]] = set()
        self._suspicion: asyncio.Task[None] | None = None
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        discovered = known.discovered if known else None
        mode = "auto" if known is None else "legacy"
        if discovered is not None:
            mode = next(
                each for each in MODERN_PROTOCOL_VERSIONS if each in discovered.supported_versions
            )
        client = Client(
            _watched(transport, self._closing),
            mode=mode,
            prior_discover=discovered,
            cache=None,
            message_handler=self._note_changes,
            client_info=types.Implementation(name=_NAME, version=version(_NAME)),
        )
        self._task = asyncio.create_task(self._own(client))

    async def _own(self, client: Client) -> None:
        try:
            async with client, asyncio.TaskGroup() as background:
                listening = background.create_task(self._listen_to_changes(client))
                self._client.set_result(client)
                await self._closing.wait()
                listening.cancel()
        except asyncio.CancelledError:
            self._fail(protocol_error("The connection was closed.", CONNECTION_CLOSED))
            raise
        except Exception as error:  # also groups: the SDK runs its transports in task groups
            self._fail(self.failure(error))
        finally:
            if self._kind == "stdio":
                self.list_changed.set()  # It may have other tools once it is started again.

    async def _listen_to_changes(self, client: Client) -> None:
        """Let a program send its notices: with the latest protocol, it sends none unasked."""
        tools = client.session.server_capabilities and client.session.server_capabilities.tools
        is_asked = client.session.protocol_version in MODERN_PROTOCOL_VERSIONS
        if self._kind != "stdio" or not is_asked or not tools or not tools.list_changed:
            return
        with suppress(MCPError, SubscriptionLost):
            async with client.listen(tools_list_changed=True):
                await self._closing.wait()

    async def _note_changes(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.list_changed.set()
            self.list_changed = asyncio.Event()

    def _fail(self, failure: Failure) -> None:
        if not self._client.done():
            self._client.set_exception(failure)
            self._client.exception()  # It is retrieved, even if nobody waits any more.

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._task.done() or self._closing.is_set()

    @property
    def negotiated(self) -> Negotiated:
        """What was agreed on; after `ready`."""
        session = self._client.result().session
        return Negotiated(self._kind, session.discover_result)

    async def ready(self) -> None:
        """Wait until the connection is open. Raises Failure."""
        await asyncio.shield(self._client)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], notify: Progress
    ) -> types.CallToolResult:
        """The result of a tool; `notify` as for `send`. Raises Failure.

        In place of a result, a server may answer with a state, and goes on once it gets the same
        call with it. It may ask for input only where the client offers to give some:
        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
        """
        parameters = types.CallToolRequestParams(name=name, arguments=arguments)
        pause = FIRST_PAUSE
        while True:
            request = types.CallToolRequest(params=parameters)
            answer = await self.send(request, _CALL_RESULT, notify)
            if isinstance(answer, types.CallToolResult):
                return answer
            if answer.input_requests:
                raise protocol_error("The tool asks for input, which nobody can give.")
            parameters.request_state = answer.request_state
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def send(
        self,
        request: types.Request[Any, Any],
        result: type[Result] | TypeAdapter[Result],
        notify: Progress,
    ) -> Result:
        """The result of a request. notify: called when the server reports progress.

        Raises Failure. Cancelling the caller tells the server to end the work.
        """

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            notify()

        self.exchange.begin()
        ended = asyncio.get_running_loop().create_future()
        self._requests.add(ended)
        try:
            session = self._client.result().session
            try:
                return await session.send_request(request, result, progress_callback=on_progress)
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
            # The session has to know the tool's schema to write headers of its arguments.
            await self._list_for_headers()
            return await session.send_request(request, result, progress_callback=on_progress)
        except Exception as error:
            if isinstance(error, MCPError) and error.message == CLOSED:
                self._closing.set()  # The next call opens another connection.
            raise self.failure(error) from None
        except asyncio.CancelledError:
            self._suspect()
            raise
        finally:
            self._requests.discard(ended)
            ended.set_result(None)

    async def _list_for_headers(self) -> None:
        session = self._client.result().session
        async for _ in self._pages(lambda params: session.list_tools(params=params)):
            pass  # The session keeps what it needs of each.

    def tool_pages(self) -> AsyncIterator[types.ListToolsResult]:
        """The server's list of tools, page by page. Raises Failure."""
        return self._pages(
            lambda params: self.send(
                types.ListToolsRequest(params=params), types.ListToolsResult, lambda: None
            )
        )

    async def _pages(
        self,
        fetch: Callable[[types.PaginatedRequestParams | None], Awaitable[types.ListToolsResult]],
    ) -> AsyncIterator[types.ListToolsResult]:
        """The pages that `fetch` gets. Raises Failure if they are too many, or too large."""
        most = self.exchange.received + MAX_RESPONSE
        params: types.PaginatedRequestParams | None = None
        cursors: set[str] = set()
        for _ in range(_MAX_PAGES):
            page = await fetch(params)
            if self.exchange.received > most:
                raise protocol_error(f"The server's tools have more than {MAX_RESPONSE:,} bytes.")
            yield page
            # Some servers have one page, and repeat its cursor without end.
            if page.next_cursor is None or page.next_cursor in cursors:
                return
            cursors.add(page.next_cursor)
            params = types.PaginatedRequestParams(cursor=page.next_cursor)
        raise protocol_error(f"The server lists its tools on more than {_MAX_PAGES} pages.")

    def failure(self, error: BaseException) -> Failure:
        """The failure that an exception of the SDK stands for."""
        if isinstance(error, BaseExceptionGroup):
            return self.failure(_leaf(error))
        if isinstance(error, Failure):
            return error
        if self.exchange.too_large:
            return protocol_error(TOO_LARGE)
        if self.exchange.status is not None and not self._is_of_server(error):
            return http_error(self.exchange.status, self.exchange.reason)
        if isinstance(error, ValidationError | ValueError):
            return protocol_error("The server's answer is not valid.", types.PARSE_ERROR)
        if isinstance(error, MCPError):
            is_parse_error = error.code == types.PARSE_ERROR  # The SDK quotes the answer.
            message = "The server's answer is not valid." if is_parse_error else error.message
            return protocol_error(message, error.code)
        if isinstance(error, RuntimeError):  # All that the SDK raises it for.
            return protocol_error("The server has no version of the protocol that is known here.")
        if isinstance(error, OSError) and self._kind == "stdio":
            return protocol_error("The server's program could not be started.", CONNECTION_CLOSED)
        return protocol_error(
            "The server could not be reached, or its address is not permitted.", CONNECTION_CLOSED
        )

    def _is_of_server(self, error: BaseException) -> bool:
        """Whether the server sent this error of JSON-RPC, beside the status."""
        # The SDK reads no body of a redirect: its own error names the address.
        is_redirect = (self.exchange.status or 0) < HTTPStatus.BAD_REQUEST
        return isinstance(error, MCPError) and error.message not in _STAND_INS and not is_redirect

    def _suspect(self) -> None:
        """End a program that hangs, in the background. Called where a request was given up.

        All later calls would fail: a program is started again only once it has ended.
        """
        if self._kind == "stdio" and (self._suspicion is None or self._suspicion.done()):
            self._suspicion = asyncio.create_task(self._end_if_hung())

    async def _end_if_hung(self) -> None:
        if await self._answers():
            return
        if self._requests:
            # One that is within its time may keep the program from its answer.
            await asyncio.wait(set(self._requests))
        if not self.closed and not await self._answers():
            logger.warning("the program of the MCP server %s hangs, and is ended", self._label)
            await self.close()

    async def _answers(self) -> bool:
        """Whether the server answers a ping in time. An error is an answer, too."""
        session = self._client.result().session
        try:
            async with asyncio.timeout(PING_SECONDS):
                await session.send_request(types.PingRequest(), types.EmptyResult)
        except Exception as error:  # also of a connection that has ended: the next call opens one
            return not isinstance(error, TimeoutError)
        return True

    def abort(self) -> asyncio.Task[None]:
        """Cut the connection. Returns the task, which then ends soon."""
        self._closing.set()
        self._task.cancel()
        return self._task

    async def close(self) -> None:
        """End the session in order if the server permits that in time. Safe to call twice."""
        self._closing.set()
        if self._kind == "stdio":  # The supervisor limits the time until the program is killed.
            await asyncio.wait({self._task})
            return
        await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        if not self._task.done():
            await asyncio.wait({self.abort()}, timeout=CLOSE_SECONDS)


def _leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in a group that is none itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def _watched(
    transport: AbstractAsyncContextManager[Any], ended: asyncio.Event
) -> AsyncIterator[Any]:
    """A transport that sets `ended` where nothing more comes: a program has ended, say.

    The SDK tells this only to requests: the next one would fail, although nothing was sent.
    """
    async with transport as (messages, sender):
        yield _Watched(messages, ended), sender


class _Watched:
    """The messages of a transport, as the SDK reads them. Their results are mended."""

    def __init__(self, messages: Any, ended: asyncio.Event) -> None:
        self._messages = messages
        self._ended = ended

    async def __aenter__(self) -> "_Watched":
        await self._messages.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._ended.set()
        await self._messages.__aexit__(*error)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self._messages:
            if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
                item.message.result = mended(item.message.result)
            yield item


async def within(seconds: float, work: Awaitable[T], failure: Failure) -> T:
    """The result of `work`. Raises `failure` if it takes too long."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise failure from None
