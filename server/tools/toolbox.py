"""The hosted tools of a server: started and stopped with it, and looked up by request type."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager

from server.tools.base import HostedTool

logger = logging.getLogger(__name__)

START_SECONDS = 10.0
"""How long a server waits for its tools to start before it accepts requests."""

STOP_SECONDS = 5.0
"""How long a server waits for its tools to stop."""

STARTING = "it is starting"
NOT_STARTED = "it could not be started"


class Toolbox:
    """Starts and stops tools, and says which can be used.

    by_type: the tools by the values of `tools[].type` that name them in a request. Of several tools
    with one type, the first has it.
    """

    def __init__(self, tools: Iterable[HostedTool]) -> None:
        self.tools = tuple(tools)
        self.by_type: Mapping[str, HostedTool] = {
            kind: tool for tool in reversed(self.tools) for kind in sorted(tool.types)
        }
        self._starting: dict[str, asyncio.Task[None]] = {}

    @property
    def problems(self) -> dict[str, str | None]:
        """Why each tool cannot be used, by name; None for one that can be."""
        return {tool.name: self._problem(tool) for tool in self.tools}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Start all tools at once, wait at most `START_SECONDS`, and stop them after the block.

        A slower tool goes on starting. Each is logged when its start ends.
        """
        self._starting = {tool.name: asyncio.create_task(self._start(tool)) for tool in self.tools}
        try:
            if self._starting:
                await asyncio.wait(self._starting.values(), timeout=START_SECONDS)
            yield
        finally:
            await self._stop()

    async def _start(self, tool: HostedTool) -> None:
        try:
            await tool.start()
        except Exception:
            logger.exception("the hosted tool %s could not be started", tool.name)
            raise
        if tool.problem is None:
            logger.info("the hosted tool %s is on", tool.name)
        else:
            logger.warning("the hosted tool %s is off: %s", tool.name, tool.problem)

    def _problem(self, tool: HostedTool) -> str | None:
        task = self._starting.get(tool.name)
        if task is not None and not task.done():
            return STARTING
        if task is not None and (task.cancelled() or task.exception() is not None):
            return NOT_STARTED
        return tool.problem

    async def _stop(self) -> None:
        for task in self._starting.values():
            task.cancel()
        stopping = {asyncio.create_task(tool.stop()): tool for tool in self.tools}
        if not stopping:
            return
        done, late = await asyncio.wait(stopping, timeout=STOP_SECONDS)
        for task in late:
            task.cancel()
            logger.error("the hosted tool %s does not stop", stopping[task].name)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("stopping %s failed", stopping[task].name, exc_info=error)
