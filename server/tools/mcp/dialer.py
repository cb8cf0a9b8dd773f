"""Opens connections to MCP servers, over the transport that each of them has.

It needs the extra `mcp`.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client

from server.tools.mcp.connection import CLOSED, Connection, Negotiated, TransportKind
from server.tools.mcp.failures import Failure
from server.tools.mcp.http import Exchange, Guard, GuardTransport, http_client
from server.tools.mcp.message_size import MAX_RESPONSE
from server.tools.mcp.servers import Server

_OLD_SERVER = frozenset({400, 404, 405, 406, 415})
_SUPERVISOR = (
    f"import sys; sys.path.append({str(Path(__file__).parents[3])!r}); "
    "from server.tools.mcp.supervisor import main; main()"
)


class Dialer:
    """Opens connections.

    guard: limits the addresses of HTTP connections. background: gets the tasks of connections that
    were cut, which have to be kept until they end.
    """

    def __init__(
        self, guard: GuardTransport, background: Callable[[asyncio.Task[None]], None]
    ) -> None:
        self._guard = guard
        self._background = background

    async def dial(self, server: Server, known: Negotiated | None = None) -> Connection:
        """An open connection. known: what an earlier one agreed on. Raises Failure.

        Without `known`, streamable HTTP is tried first. A server that refuses it is an old one, and
        SSE is tried, as the protocol's rules for compatibility say:
        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
        Some old servers end when they are asked which protocol they have, as the client does first.
        They are connected to again as old ones, without the question:
        https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
        """
        kinds: list[TransportKind] = ["http", "sse"] if server.url else ["stdio"]
        if known is not None:
            kinds = [known.transport]
        first: Failure | None = None
        for kind in kinds:
            connection = self._connection(server, kind, known)
            try:
                await connection.ready()
                return connection
            except Failure as failure:
                if known is None and failure.message == CLOSED:
                    return await self.dial(server, Negotiated(kind))
                first = first or failure
                if connection.exchange.status not in _OLD_SERVER:
                    break
            except asyncio.CancelledError:
                self._background(connection.abort())
                raise
        assert first is not None
        raise first

    def _connection(
        self, server: Server, kind: TransportKind, known: Negotiated | None
    ) -> Connection:
        exchange = Exchange()
        if server.url is None:
            return Connection(_stdio(server), exchange, kind, known, server.label)

        def guard(transport: Any) -> Any:
            return self._guard(transport, server.allow_private)

        headers = dict(server.headers)
        if kind == "sse":
            exchange.gets = True
            factory = partial(_sse_http_client, guard, exchange)
            transport = sse_client(server.url, headers=headers, httpx_client_factory=factory)
        else:
            transport = _streamable(server.url, guard, exchange, headers)
        return Connection(transport, exchange, kind, known, server.label)


@asynccontextmanager
async def _streamable(
    url: str, guard: Guard, exchange: Exchange, headers: dict[str, str]
) -> AsyncIterator[Any]:
    async with (
        http_client(guard, exchange, headers) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_RESPONSE) as streams,
    ):
        yield streams


def _sse_http_client(
    guard: Guard, exchange: Exchange, headers: Any = None, timeout: Any = None, auth: Any = None
) -> Any:
    """As `http_client`. The SDK's timeout would end a connection that is silent for 5 minutes."""
    return http_client(guard, exchange, headers)


@asynccontextmanager
async def _stdio(server: Server) -> AsyncIterator[Any]:
    """The program of a server, which the supervisor ends. Raises OSError if there is none."""
    paths = {**get_default_environment(), **server.env}.get("PATH")
    if shutil.which(server.command[0], path=paths) is None:
        raise FileNotFoundError(server.command[0])
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", "-B", "-c", _SUPERVISOR, *server.command],
        env=dict(server.env),
    )
    # What the program writes to stderr may hold the contents of calls.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230  never blocks
        async with stdio_client(parameters, errlog=nowhere) as streams:
            yield streams
