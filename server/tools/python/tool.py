"""The hosted tool `python`: gpt-oss's own stateful Python, in a container.

Requests name it as `code_interpreter`.
Source: https://platform.openai.com/docs/guides/tools-code-interpreter
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal

from harmony.grammar import CallableTool, FreeText
from harmony.tools import PYTHON
from server.errors import APIError
from server.ids import new_id
from server.schemas.fields import invalid, label, missing
from server.schemas.hosted_tools import OUTPUTS
from server.tools.base import (
    Citation,
    CreatedFile,
    ToolCall,
    ToolContext,
    ToolDeclaration,
    ToolEvent,
    ToolProgress,
    ToolResult,
)
from server.tools.python.container_options import ContainerOptions, read_options
from server.tools.python.containers import ContainerService
from server.tools.python.output import MOST_OUTPUTS, CellOutput
from server.tools.python.sandbox import CellEnd, SandboxError
from server.tools.registry import ToolSetup, unavailable

logger = logging.getLogger(__name__)

CONTAINERS = "containers"
"""The name of the setup's part that is the server's ContainerService."""

NAME = "python"
TYPE = "code_interpreter"
ITEM: Literal["code_interpreter_call"] = "code_interpreter_call"

PROGRESS_SECONDS = 0.5
"""The least time between two reports of a running cell's output."""

UNAVAILABLE = "[Python cannot be used now. Go on without it, or try again later.]"


def open_python(setup: ToolSetup) -> "PythonTool":
    """The tool on the server's containers: the factory of the registry of tools."""
    return PythonTool(setup.parts[CONTAINERS])


class PythonTool:
    """Runs Python in containers."""

    name = NAME
    types = frozenset({TYPE})

    def __init__(self, containers: ContainerService) -> None:
        self._containers = containers

    @property
    def problem(self) -> str | None:
        """Why Python cannot run here; None if it can. Known after `start`."""
        return self._containers.problem

    async def start(self) -> None:
        """Start the sandbox."""
        await self._containers.start()

    async def stop(self) -> None:
        """End all cells and sessions."""
        await self._containers.stop()

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> "PythonSession":
        """A session on the container that the request names, or on one of its own.

        With `auto`, the container of the previous turn is used if it still runs, or that of the
        last call that the client sends back. A new one is made by the first call. Raises APIError
        for an invalid, unknown or expired container.
        """
        if self.problem is not None:
            raise unavailable(NAME, self.problem, context.param)
        param = f"{context.param}.container"
        if "container" not in config:
            raise missing(param)
        container = config["container"]
        if isinstance(container, str):
            name = label(container, param)
            found = await self._containers.running(context.owner, name, param=param)
            return PythonSession(self._containers, context, found.id, None, container, exists=True)
        if isinstance(container, dict) and container.get("type") == "auto":
            return await self._open_auto(container, context, param)
        raise invalid(param, "expected a container's id, or an object with the type 'auto'")

    async def _open_auto(
        self, auto: dict[str, Any], context: ToolContext, param: str
    ) -> "PythonSession":
        options = read_options(auto, self._containers.limits.memory, param=f"{param}.")
        await self._containers.check_files(context.owner, options, param=f"{param}.")
        known = ("type", "file_ids", "memory_limit", "network_policy")
        echo = {name: auto[name] for name in known if auto.get(name) is not None}
        previous = (context.state or _last_call(context)).get("container_id")
        found = None
        if isinstance(previous, str):
            found = await self._containers.find(context.owner, previous)
        container_id = new_id("cntr") if found is None else found.id
        return PythonSession(
            self._containers, context, container_id, options, echo, exists=found is not None
        )


def _last_call(context: ToolContext) -> Mapping[str, Any]:
    """The last call of Python before the answer, as the store or the client has it."""
    calls = (item for item in reversed(context.history) if item["type"] == ITEM)
    return next(calls, {})


class PythonSession:
    """Python in one answer: its cells run one after another in one container.

    container_id: of a container that may not exist yet. options: those of a container that the
    first call makes; None for one that the request names. container: what the response's `tools`
    show of it. exists: whether it exists.
    """

    def __init__(
        self,
        containers: ContainerService,
        context: ToolContext,
        container_id: str,
        options: ContainerOptions | None,
        container: str | dict[str, Any],
        *,
        exists: bool,
    ) -> None:
        self.declaration = ToolDeclaration(
            name=NAME,
            type=TYPE,
            item=ITEM,
            calls=(CallableTool(NAME, FreeText()),),
            echo={"type": TYPE, "container": container},
            namespace=PYTHON,
            fields={"container_id": container_id},
        )
        self._containers = containers
        self._context = context
        self._container_id = container_id
        self._options = options
        self._with_outputs = OUTPUTS in context.include
        self._outputs_left = MOST_OUTPUTS
        self._exists = exists
        self._closed = False
        containers.use(container_id)

    @property
    def state(self) -> Mapping[str, Any] | None:
        """The container, for the next turn; None if no call has made it."""
        return {"container_id": self._container_id} if self._exists else None

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        """Run the call's code. An exception of the code is a completed call."""
        output = CellOutput(self._outputs_left)
        try:
            async with (
                self._containers.reserved(self._context.owner, self._container_id, self._options),
                aclosing(self._run_cell(call.content, output)) as events,
            ):
                self._exists = True
                yield ToolProgress(self._fields(output))
                async for event in events:
                    yield event
        except SandboxError as error:
            logger.warning("the sandbox failed: %s", error)
            yield ToolResult(output.text(UNAVAILABLE), True, self._fields(output))
        except APIError as error:
            note = f"[Python cannot be used: {error.message}]"
            yield ToolResult(output.text(note), True, self._fields(output))
        finally:
            self._outputs_left = output.left

    async def _run_cell(
        self, code: str, output: CellOutput
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        end = CellEnd("died", "it ended without a reason")
        clock = asyncio.get_running_loop().time
        reported = clock() - PROGRESS_SECONDS
        cell = self._containers.sandbox.run(self._container_id, code, self._context.timeout)
        async with aclosing(cell) as events:
            async for event in events:
                if isinstance(event, CellEnd):
                    end = event
                    continue
                output.add(event)
                if self._with_outputs and clock() - reported >= PROGRESS_SECONDS:
                    reported = clock()
                    yield ToolProgress(self._fields(output))
        files = await self._containers.written_files(self._container_id)
        yield ToolResult(
            output.text(self._note(end)),
            end.outcome in ("timeout", "died"),
            self._fields(output),
            tuple(
                CreatedFile(
                    file.container_id, file.id, file.path.rpartition("/")[2], file.full_path
                )
                for file in files
            ),
        )

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        """None: files are cited as such."""
        return None

    async def close(self) -> None:
        """Let the container expire."""
        if not self._closed:
            self._closed = True
            await self._containers.release(self._container_id)

    def _fields(self, output: CellOutput) -> dict[str, Any]:
        outputs = output.outputs() if self._with_outputs else None
        return {"container_id": self._container_id, "outputs": outputs}

    def _note(self, end: CellEnd) -> str:
        match end.outcome:
            case "timeout":
                return f"[The cell was interrupted after {self._context.timeout:g} seconds.]"
            case "died":
                reason = f": {end.reason}" if end.reason else ""
                return (
                    f"[The Python process ended{reason}. Its variables are lost; the files in"
                    " /mnt/data are not.]"
                )
            case _:
                return ""
