"""The connections and lists that all sessions of the tool `mcp` share. It needs the extra `mcp`."""

import asyncio
from typing import Any

from server.tools.mcp.connection import Connection, Dialer, Negotiated, silence_sdk
from server.tools.mcp.failures import CONNECTION_CLOSED, protocol_error
from server.tools.mcp.http import GuardTransport
from server.tools.mcp.listing import Listings
from server.tools.mcp.servers import Server

STOP_SECONDS = 4.0
"""Seconds for programs to end. Their supervisors kill them after one."""


class Runtime:
    """Connects to servers.

    An HTTP server has a connection for each answer, so that no two answers share a session. A
    program of the operator runs once, and all answers share it.
    """

    def __init__(self, guard: GuardTransport) -> None:
        silence_sdk()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dialer = Dialer(guard, self.keep)
        self._programs: dict[str, Connection] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._stopped = False
        self.listings = Listings(self.connect, self.release, self.keep)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task until it ends. Its exception, if any, is of no further interest."""
        self._tasks.add(task)
        task.add_done_callback(self._drop)

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def connect(self, server: Server, negotiated: Negotiated | None = None) -> Connection:
        """An open connection, to be given to `release`. Raises Failure."""
        if server.url is not None:
            return await self._dialer.dial(server, negotiated)
        lock = self._locks.setdefault(server.identity, asyncio.Lock())
        async with lock:
            if self._stopped:
                raise protocol_error("This server is stopping.", CONNECTION_CLOSED)
            program = self._programs.get(server.identity)
            if program is None or program.closed:
                program = await self._dialer.dial(server, negotiated)
                self._programs[server.identity] = program
            return program

    def release(self, server: Server, connection: Connection) -> None:
        """Close a connection in the background. Programs go on."""
        if server.url is not None:
            self.keep(asyncio.create_task(connection.close()))

    async def stop(self) -> None:
        """Close all connections and end all programs."""
        self._stopped = True
        self.listings.stop()
        for program in self._programs.values():
            self.keep(asyncio.create_task(program.close()))
        self._programs.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
