"""The interface of hosted tools: tools that the server runs while the model thinks.

A hosted tool knows no API. A request opens one session for each hosted tool that it names; the
loop (`server.generation.loop`) runs the model's calls in it; outbound makes items of the events.
Tools of third parties are registered under the entry-point group `gpt_oss_server.tools`.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from harmony.grammar import CallableTool
from harmony.messages import Channel, FunctionTool, ToolNamespace

ItemType = Literal["code_interpreter_call", "web_search_call", "mcp_call"]
"""The type of the output item that shows a call. Tools of third parties use `mcp_call`."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The answer that a session belongs to.

    owner: the one whose objects the tool may use. answer_id: the id of the response or the
    completion. param: the request's field that names the tool, for errors. timeout: seconds for one
    call, > 0. state: what the tool's session of the previous turn returned as `state`, None if
    there is none. include: the request's `include` values. stored: whether the answer, and with it
    the session's state, is stored. history: the items of hosted tools in the context, as the store
    or the client has them, in order.
    """

    owner: str
    answer_id: str
    param: str
    timeout: float
    state: Mapping[str, Any] | None = None
    include: frozenset[str] = frozenset()
    stored: bool = False
    history: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A hosted tool as one request uses it.

    name: the name of the tool, such as `python`; state is stored under it. type: the request's
    `tools[].type`. item: the type of its output items. calls: what the model may call, with the
    constraint on each body. namespace: the declaration in the system message. functions: the
    declarations in the developer message, without their namespace `functions`. fields: fields of
    every item that are known before the call runs, such as `container_id`. echo: the entry of the
    response's `tools`, with defaults and without secrets. call_fields: fields of an item by the
    recipient of its call, such as the `name` of a server's tool. approvals: recipients whose calls
    may end in `ApprovalRequested`, so that their items wait for the first event. opening: complete
    items that the answer begins with, such as `mcp_list_tools`. size: bytes of the declared
    definitions, where they are limited. cites: whether `cite` resolves the citation markers of the
    answer, which become links.
    """

    name: str
    type: str
    item: ItemType
    calls: tuple[CallableTool, ...]
    echo: Mapping[str, Any]
    namespace: ToolNamespace | None = None
    functions: tuple[FunctionTool, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    call_fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    approvals: frozenset[str] = frozenset()
    opening: tuple[Mapping[str, Any], ...] = ()
    size: int = 0
    cites: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model sampled.

    item_id: the id of the output item. recipient: as declared, such as `browser.open`. channel: the
    channel of the call, which its result repeats. content: the body: code, or JSON text that may be
    invalid where no grammar applied. approval_request_id: the request for approval that the client
    approved, None where there was none.
    """

    item_id: str
    recipient: str
    channel: Channel
    content: str
    approval_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """The call has come further. fields: fields of its item that are known now."""

    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedFile:
    """A file that a call wrote. path: as the model knows it, such as `/mnt/data/plot.png`."""

    container_id: str
    file_id: str
    filename: str
    path: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The last event of a call that ran.

    text: what the model reads. failed: whether the item's status is `failed`. fields: the last
    values of the item's fields. files: the files that the call wrote, which the answer cites.
    """

    text: str
    failed: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[CreatedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """The only event of a call that the client has to approve first. It ends the answer.

    item: the item `mcp_approval_request`, which replaces the call's own item.
    """

    item: Mapping[str, Any]


ToolEvent = ToolProgress | ToolResult | ApprovalRequested


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the answer cites."""

    url: str
    title: str


class ToolSession(Protocol):
    """One hosted tool in one answer. Its calls run one after another."""

    @property
    def declaration(self) -> ToolDeclaration:
        """How the request uses the tool."""
        ...

    @property
    def state(self) -> Mapping[str, Any] | None:
        """JSON to store with the answer, for the session of the next turn; None for nothing."""
        ...

    def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        """Run a call. The last event is a `ToolResult`, or the only one `ApprovalRequested`.

        The tool's own failures, an invalid body among them, are results whose text tells the model
        what was wrong. An exception is a defect: the loop logs it and makes a failed result of it.
        Closing the generator ends the call's work within a second.
        """
        ...

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        """The source behind a citation marker; None if there is none.

        cursor: the number of what the model cites. line: the first line that the marker names,
        from 0; None if it names none.
        """
        ...

    async def close(self) -> None:
        """Free what the session uses for this answer alone. Safe to call twice."""
        ...


@runtime_checkable
class ApprovalSession(ToolSession, Protocol):
    """A session of a tool whose calls clients approve or refuse."""

    async def check(self, call: ToolCall, param: str) -> None:
        """Check that the client may answer the request for approval of a call.

        call: with the `approval_request_id`, and the content of the request for approval. Raises
        InvalidRequest for `param`.
        """
        ...

    async def refuse(self, call: ToolCall, param: str) -> None:
        """Record that the client refused a call, after `check`.

        Raises InvalidRequest for `param` if another request has answered since.
        """
        ...


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call of an earlier answer that the client approved or refused.

    session: the session that requested the approval, as this answer has it. An approved call runs
    in it before the first turn. param: the field of the request that answers, for errors.
    """

    call: ToolCall
    session: ApprovalSession
    approved: bool
    param: str


def tool_state(sessions: Iterable[ToolSession]) -> dict[str, Mapping[str, Any]]:
    """The states of sessions, by the tool's name; without those that have none."""
    states = {session.declaration.name: session.state for session in sessions}
    return {name: state for name, state in states.items() if state is not None}


class HostedTool(Protocol):
    """A tool that the server runs, made once for each process.

    The server calls `start` once, then `open` any number of times, then `stop`.
    """

    @property
    def name(self) -> str:
        """The name in `--hosted-tools`, such as `python`."""
        ...

    @property
    def types(self) -> frozenset[str]:
        """The values of `tools[].type` that name the tool in a request."""
        ...

    @property
    def problem(self) -> str | None:
        """Why the tool cannot be used on this machine; None if it can be.

        Known after `start`, except for what a tool loads when it is used first.
        """
        ...

    async def start(self) -> None:
        """Prepare the tool. A tool that cannot run here sets `problem`, and does not raise."""
        ...

    async def stop(self) -> None:
        """End all work of the tool. Safe to call twice."""
        ...

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> ToolSession:
        """A session for one answer. It should be cheap: resources are taken by the first call.

        config: the request's entry of `tools`, whose type is one of `types`. Raises APIError naming
        the field under `context.param`.
        """
        ...
