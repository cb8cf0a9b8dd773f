"""What the server's own calls of tools look like in the Responses API: items, events, citations."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict

from server.openapi.places import InItem, InPart
from server.schemas.descriptions import described

HostedStatus = Literal["in_progress", "completed", "incomplete", "failed"]


@described
class UrlSource(TypedDict):
    """A page that a search has found."""

    type: Literal["url"]
    url: str


@described
class SearchAction(TypedDict):
    """A search."""

    type: Literal["search"]
    query: NotRequired[str]
    """Absent where the call could not be read."""
    queries: NotRequired[list[str]]
    sources: NotRequired[list[UrlSource]]
    """Where `include` asks for them."""


@described
class OpenPageAction(TypedDict):
    """A page was opened."""

    type: Literal["open_page"]
    url: str | None


@described
class FindInPageAction(TypedDict):
    """A text was looked for in a page."""

    type: Literal["find_in_page"]
    pattern: str
    url: str


@described
class WebSearchCallItem(TypedDict):
    """A call of the browser, which the server ran."""

    type: Literal["web_search_call"]
    id: str
    status: HostedStatus
    action: NotRequired[SearchAction | OpenPageAction | FindInPageAction]
    """Absent while the call is in progress."""
    results: NotRequired[list[dict[str, Any]]]
    """Where `include` asks for them, and the tool has them."""


@described
class LogsOutput(TypedDict):
    """Text that a cell has written."""

    type: Literal["logs"]
    logs: str


@described
class ImageOutput(TypedDict):
    """An image that a cell has shown."""

    type: Literal["image"]
    url: str
    """A data URL."""


@described
class CodeInterpreterCallItem(TypedDict):
    """Code, which the server ran."""

    type: Literal["code_interpreter_call"]
    id: str
    status: HostedStatus
    code: str
    container_id: str
    outputs: list[LogsOutput | ImageOutput] | None
    """Null where `include` does not ask for them."""


@described
class McpCallItem(TypedDict):
    """A call of a tool of an MCP server, or of another program's tool, which the server made."""

    type: Literal["mcp_call"]
    id: str
    status: HostedStatus
    server_label: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""
    output: str | None
    error: dict[str, Any] | None
    approval_request_id: str | None


@described
class McpListedTool(TypedDict):
    """A tool as its server lists it."""

    name: str
    description: NotRequired[str | None]
    input_schema: NotRequired[dict[str, Any]]
    annotations: NotRequired[dict[str, Any] | None]


@described
class McpListToolsItem(TypedDict):
    """The tools of an MCP server."""

    type: Literal["mcp_list_tools"]
    id: str
    server_label: str
    tools: list[McpListedTool]
    error: NotRequired[str]
    """Why there are none."""


@described
class McpApprovalRequestItem(TypedDict):
    """A call that waits for the client's approval, an item `mcp_approval_response`."""

    type: Literal["mcp_approval_request"]
    id: str
    server_label: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""


HostedItem = (
    WebSearchCallItem
    | CodeInterpreterCallItem
    | McpCallItem
    | McpListToolsItem
    | McpApprovalRequestItem
)


@described
class UrlCitation(TypedDict):
    """The page that a part of the text comes from."""

    type: Literal["url_citation"]
    start_index: int
    """The first character of the text's link to the page."""
    end_index: int
    title: str
    url: str


@described
class FileCitation(TypedDict):
    """A file that code has written. Its indices are those of its link in the text."""

    type: Literal["container_file_citation"]
    start_index: int
    end_index: int
    container_id: str
    file_id: str
    filename: str


Annotation = TypeAliasType("Annotation", UrlCitation | FileCitation)


@described
class AnnotationAddedEvent(InPart):
    """A citation of the text so far."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: int
    annotation: Annotation


@described
class HostedCallEvent(InItem):
    """How far the server is with a call, or with the list of a server's tools."""

    type: Literal[
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
    ]


@described
class HostedCallDeltaEvent(InItem):
    """More of the code, or of the arguments for an MCP server."""

    type: Literal["response.code_interpreter_call_code.delta", "response.mcp_call_arguments.delta"]
    delta: str


@described
class CodeDoneEvent(InItem):
    """The whole code of a call."""

    type: Literal["response.code_interpreter_call_code.done"]
    code: str


@described
class McpArgumentsDoneEvent(InItem):
    """The whole arguments of a call."""

    type: Literal["response.mcp_call_arguments.done"]
    arguments: str


HostedEvent = (
    AnnotationAddedEvent
    | HostedCallEvent
    | HostedCallDeltaEvent
    | CodeDoneEvent
    | McpArgumentsDoneEvent
)
