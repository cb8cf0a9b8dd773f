"""The connections and lists that all sessions of the tool `mcp` share. It needs the extra `mcp`."""

import asyncio
from contextlib import suppress
from typing import Any

from server.tools.mcp.connection import Connection, Negotiated, prepare_sdk, within
from server.tools.mcp.dialer import Dialer
from server.tools.mcp.failures import CONNECTION_CLOSED, protocol_error, timed_out
from server.tools.mcp.http import GuardTransport
from server.tools.mcp.listing import Listings
from server.tools.mcp.servers import Server

START_SECONDS = 300.0
"""Seconds for a program to start: some are downloaded first."""

STOP_SECONDS = 4.0
"""Seconds for programs to end. Their supervisors kill them after one."""


class Runtime:
    """Connects to servers.

    An HTTP server has a connection for each answer, so that no two answers share a session. A
    program of the operator runs once, and all answers share it.
    """

    def __init__(self, guard: GuardTransport) -> None:
        prepare_sdk()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dialer = Dialer(guard, self.keep)
        self._programs: dict[str, asyncio.Task[Connection]] = {}
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
        if self._stopped:
            raise protocol_error("This server is stopping.", CONNECTION_CLOSED)
        program = self._programs.get(server.identity)
        if program is None or _has_ended(program):
            # A request that gives up leaves it starting: else a slow one would never be there.
            program = asyncio.create_task(self._start(server, negotiated))
            self._programs[server.identity] = program
            self.keep(program)
        return await asyncio.shield(program)

    async def _start(self, server: Server, negotiated: Negotiated | None) -> Connection:
        too_late = timed_out(START_SECONDS, "The start of the server's program")
        return await within(START_SECONDS, self._dialer.dial(server, negotiated), too_late)

    def release(self, server: Server, connection: Connection) -> None:
        """Close a connection in the background. Programs go on."""
        if server.url is not None:
            self.keep(asyncio.create_task(connection.close()))

    async def stop(self) -> None:
        """Close all connections and end all programs."""
        self._stopped = True
        self.listings.stop()
        for program in self._programs.values():
            if not program.done():
                program.cancel()
            elif not _has_ended(program):
                self.keep(asyncio.create_task(program.result().close()))
        self._programs.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                while self._tasks:  # Those that are cancelled leave others.
                    await asyncio.wait(set(self._tasks))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)


def _has_ended(program: asyncio.Task[Connection]) -> bool:
    """Whether a program has failed to start, or has ended after it did."""
    if not program.done():
        return False
    return program.cancelled() or program.exception() is not None or program.result().closed
