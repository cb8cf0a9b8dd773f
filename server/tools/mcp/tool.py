"""The hosted tool `mcp`: the tools of MCP servers, each as a function `LABEL__TOOL`.

Source: https://platform.openai.com/docs/guides/tools-connectors-mcp
"""

import asyncio
import importlib
import importlib.util
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.tools.base import ToolContext
from server.tools.fetch.addresses import AddressPolicy, parse_networks
from server.tools.fetch.guard import Guard, SystemResolver, guard_transport
from server.tools.fetch.urls import FetchPolicy
from server.tools.mcp.approvals import Approvals
from server.tools.mcp.entry import read_server
from server.tools.mcp.servers import Server, load_servers
from server.tools.registry import ToolSetup, unavailable

if TYPE_CHECKING:
    from server.tools.mcp.http import GuardTransport
    from server.tools.mcp.runtime import Runtime
    from server.tools.mcp.session import McpSession

logger = logging.getLogger(__name__)

NAME = "mcp"
FILE = "mcp_file"
"""The name of the setup's part that is the path of the operator's file, or None."""
APPROVALS = "approvals"
"""The name of the setup's part that is an `Approvals`."""

_PORTS = range(1, 65536)
_EVERYWHERE = ("0.0.0.0/0", "::/0")
_SDK = ("mcp", "mcp_types", "httpx2")
_STOPPED = "it is not running"
_MISSING = "the extra 'mcp' is not installed (pip install 'gpt-oss-server[mcp]')"


def open_mcp(setup: ToolSetup) -> "McpTool":
    """The tool with the operator's servers: the factory of the registry of tools.

    Raises ValueError for a file that cannot be read.
    """
    path: Path | None = setup.parts.get(FILE)
    resolver = SystemResolver()
    public = Guard(FetchPolicy(ports=_PORTS), resolver)
    anywhere = FetchPolicy(AddressPolicy(parse_networks(_EVERYWHERE)), ports=_PORTS)
    private = Guard(anywhere, resolver)

    def guard(transport: Any, allow_private: bool) -> Any:
        return guard_transport(transport, private if allow_private else public)

    servers = {} if path is None else load_servers(path)
    return McpTool(servers, guard, setup.parts[APPROVALS], resolver)


class McpTool:
    """Implements `HostedTool`.

    servers: those of the operator's file, by label. guard: limits the addresses of HTTP
    connections. approvals: makes and checks requests for approval. resolver: that of the guard,
    which is closed when the tool stops.
    """

    name = NAME
    types = frozenset({"mcp"})

    def __init__(
        self,
        servers: Mapping[str, Server],
        guard: "GuardTransport",
        approvals: Approvals,
        resolver: SystemResolver | None = None,
    ) -> None:
        self._servers = servers
        self._guard = guard
        self._approvals = approvals
        self._resolver = resolver
        self._runtime: Runtime | None = None
        self._opening = asyncio.Lock()
        self._running = False
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """See `HostedTool`."""
        return self._problem

    async def start(self) -> None:
        """Check that the SDK is installed. Import it if the operator has servers. See `HostedTool`.

        Otherwise the first request imports it: it takes 20 MB, and most of a second.
        """
        self._running = True
        if any(importlib.util.find_spec(name) is None for name in _SDK):
            self._problem = _MISSING
        elif self._servers:
            await self._open_runtime()

    async def _open_runtime(self) -> "Runtime | None":
        """The runtime, made if there is none yet; None if the tool is stopped or has a problem."""
        async with self._opening:
            if self._runtime is None and self._problem is None:
                try:
                    await asyncio.to_thread(importlib.import_module, "server.tools.mcp.session")
                    from server.tools.mcp.runtime import Runtime
                except Exception as error:  # a package of another version raises any type
                    logger.exception("the SDK of MCP cannot be imported")
                    self._problem = f"its SDK cannot be imported: {type(error).__name__}"
                    return None
                if self._running:
                    self._runtime = Runtime(self._guard)
            return self._runtime

    async def stop(self) -> None:
        """See `HostedTool`."""
        self._running = False
        runtime, self._runtime = self._runtime, None
        try:
            if runtime is not None:
                await runtime.stop()
        finally:
            if self._resolver is not None:
                self._resolver.close()

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> "McpSession":
        """A session with one server, whose tools are listed. See `HostedTool`.

        A server whose tools cannot be listed has no functions. An item of the session's declaration
        says why. While the tool starts, this waits. Raises InvalidRequest for an invalid entry.
        """
        server = read_server(config, self._servers, context.param)
        runtime = await self._open_runtime() if self._running else None
        if runtime is None:
            raise unavailable(NAME, self._problem or _STOPPED, context.param)
        from server.tools.mcp.session import McpSession

        return await McpSession.open(runtime, self._approvals, server, config, context)
