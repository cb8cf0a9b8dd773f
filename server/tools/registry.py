"""Hosted tools by name, imported only when they are wanted.

Third parties add theirs through the entry-point group `gpt_oss_server.tools`; an entry point's
object is a `ToolFactory`. A built-in name cannot be taken over.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from server.errors import APIError, InvalidRequest
from server.schemas.hosted_tools import SEARCH_TYPES
from server.store.responses.base import Store
from server.tools.base import HostedTool, ToolContext, ToolSession

logger = logging.getLogger(__name__)

GROUP = "gpt_oss_server.tools"

_BUILT_IN = (
    EntryPoint("python", "server.tools.python.tool:open_python", GROUP),
    EntryPoint("browser", "server.tools.browser.tool:open_browser", GROUP),
    EntryPoint("mcp", "server.tools.mcp.tool:open_mcp", GROUP),
)

_TYPES = {
    "python": frozenset({"code_interpreter"}),
    "browser": SEARCH_TYPES,
    "mcp": frozenset({"mcp"}),
}
"""The request types of built-in tools, for those that cannot be imported."""


@dataclass(frozen=True, slots=True)
class ToolSetup:
    """What a tool is made from.

    store: the server's store. parts: other parts of the server, by name, for built-in tools.
    """

    store: Store
    parts: Mapping[str, Any] = field(default_factory=dict)


ToolFactory = Callable[[ToolSetup], HostedTool]


class UnknownTool(ValueError):
    """No hosted tool has this name."""


class UnavailableTool:
    """A tool that could not be made. problem: why."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.types = _TYPES.get(name, frozenset())
        self.problem: str | None = problem

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> ToolSession:
        """Raises InvalidRequest with the problem."""
        raise unavailable(self.name, self.problem, context.param)


def unavailable(name: str, problem: str | None, param: str | None = None) -> APIError:
    """The error for a request that needs a tool which this machine cannot run.

    problem: why it cannot. param: the request's field that names the tool.
    """
    return InvalidRequest(
        f"The tool '{name}' cannot be used on this server: {problem}",
        param=param,
        code="tool_unavailable",
    )


def names() -> list[str]:
    """The names that `create` knows: built-in ones first, then those of third parties, sorted."""
    return list(_known())


def check(wanted: Iterable[str]) -> None:
    """Raises UnknownTool for a name that `create` does not know."""
    known = names()
    for name in wanted:
        if name not in known:
            there = ", ".join(map(_with_type, known))
            raise UnknownTool(f"unknown hosted tool {name!r}; there are {there}")


def _with_type(name: str) -> str:
    """The name, and the type by which requests name a built-in tool if that is another word."""
    kind = min(_TYPES.get(name, {name}), key=len)
    return name if kind == name else f"{name} ({kind})"


def create(wanted: Iterable[str] | None, setup: ToolSetup) -> tuple[HostedTool, ...]:
    """Make tools, not yet started.

    wanted: their names; None for all that can be made. A wanted tool that cannot be made has a
    `problem`. Raises UnknownTool.
    """
    known = _known()
    if wanted is not None:
        wanted = tuple(wanted)
        check(wanted)
    chosen = known if wanted is None else {name: known[name] for name in wanted}
    return tuple(_create(name, entry, setup) for name, entry in chosen.items())


def _create(name: str, entry: EntryPoint, setup: ToolSetup) -> HostedTool:
    try:
        factory: ToolFactory = entry.load()
        return factory(setup)
    except ImportError as error:
        return UnavailableTool(name, f"it cannot be imported: {error}")
    except Exception as error:
        # A defect of one tool does not keep the server from starting.
        logger.exception("the hosted tool %s cannot be made", name)
        return UnavailableTool(name, f"it cannot be made: {type(error).__name__}")


def _known() -> dict[str, EntryPoint]:
    built_in = {entry.name: entry for entry in _BUILT_IN}
    installed = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return built_in | {entry.name: entry for entry in installed if entry.name not in built_in}
