"""Hosted tools, and the choice among them, of either API.

Only what every server reads is described. The tools themselves check their entries.
Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
"""

from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

from server.schemas.containers import MemoryLimit, NetworkPolicy
from server.schemas.descriptions import described

SearchType = Literal[
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
]
SEARCH_TYPES: frozenset[str] = frozenset(get_args(SearchType))
SearchContextSize = Literal["low", "medium", "high"]

OUTPUTS = "code_interpreter_call.outputs"
"""The value of `include` that shows what the code of a call printed and displayed."""
SOURCES, RESULTS = "web_search_call.action.sources", "web_search_call.results"
"""The values of `include` that show the sources of a search, and its results."""


@described
class AutoContainer(TypedDict):
    """The container of the response that is continued, or a new one."""

    type: Literal["auto"]
    file_ids: NotRequired[list[str] | None]
    """Files that the code can read under `/mnt/data`."""
    memory_limit: NotRequired[MemoryLimit | None]
    network_policy: NotRequired[NetworkPolicy | None]


@described
class CodeInterpreterTool(TypedDict):
    """Python, which the server runs: the model's tool `python`."""

    type: Literal["code_interpreter"]
    container: str | AutoContainer
    """The id of a container, or how to find one."""


@described
class SearchFilters(TypedDict, total=False):
    """The domains that results may have. Subdomains are included."""

    allowed_domains: list[str] | None
    blocked_domains: list[str] | None


@described
class UserLocation(TypedDict, total=False):
    """Where the user is."""

    type: Literal["approximate"] | None
    city: str | None
    country: str | None
    """Two letters, as in ISO 3166-1."""
    region: str | None
    timezone: str | None
    """The name of the time zone, as in IANA's database."""


@described
class WebSearchTool(TypedDict):
    """Web search, which the server runs: the model's tool `browser`."""

    type: SearchType
    external_web_access: NotRequired[bool | None]
    """False: only pages that the server already has."""
    filters: NotRequired[SearchFilters | None]
    search_context_size: NotRequired[SearchContextSize | None]
    """How much of the context a search may use, by default `medium`."""
    user_location: NotRequired[UserLocation | None]


@described
class McpToolFilter(TypedDict, total=False):
    """Some of a server's tools."""

    tool_names: list[str] | None
    read_only: bool | None
    """True: tools that change nothing, by what their server says."""


@described
class McpApproval(TypedDict, total=False):
    """Which tools wait for an approval."""

    always: McpToolFilter | None
    never: McpToolFilter | None


@described
class McpTool(TypedDict):
    """The tools of an MCP server, which this server calls."""

    type: Literal["mcp"]
    server_label: str
    """The name of the server in calls."""
    server_url: NotRequired[str | None]
    server_description: NotRequired[str | None]
    authorization: NotRequired[str | None]
    """An OAuth token. It is never stored or repeated in answers."""
    headers: NotRequired[dict[str, str] | None]
    """HTTP headers for the server. They are never stored or repeated in answers."""
    allowed_tools: NotRequired[list[str] | McpToolFilter | None]
    require_approval: NotRequired[Literal["always", "never"] | McpApproval | None]
    """Which calls wait for the client's approval, by default all."""


HostedTool = CodeInterpreterTool | WebSearchTool | McpTool


@described
class EchoedHostedTool(TypedDict):
    """A hosted tool as the server read it, with defaults and without secrets."""

    type: Literal["code_interpreter", "mcp"] | SearchType


@described
class OpenRouterSearch(TypedDict, total=False):
    """Options of OpenRouter's web search. Further ones have no effect."""

    max_results: int | None
    search_context_size: SearchContextSize | None
    allowed_domains: list[str] | None
    excluded_domains: list[str] | None
    user_location: UserLocation | None


@described
class OpenRouterSearchTool(TypedDict):
    """The tool `web_search`, in OpenRouter's form."""

    type: Literal["openrouter:web_search"]
    parameters: NotRequired[OpenRouterSearch | None]


@described
class ChatUserLocation(TypedDict):
    """Where the user is."""

    type: Literal["approximate"]
    approximate: UserLocation


@described
class WebSearchOptions(TypedDict, total=False):
    """The tool `web_search`, in Chat's form. An empty object selects the defaults."""

    search_context_size: SearchContextSize | None
    user_location: ChatUserLocation | None


@described
class Plugin(TypedDict):
    """A plugin of OpenRouter. `web` is the tool `web_search`."""

    id: str
    max_results: NotRequired[int | None]


@described
class HostedToolChoice(TypedDict):
    """This hosted tool is called, or is one of those that may be."""

    type: Literal["code_interpreter"] | SearchType


@described
class McpToolChoice(TypedDict):
    """A tool of this MCP server is called, or its tools are among those that may be."""

    type: Literal["mcp"]
    server_label: str
    name: NotRequired[str | None]
    """The only tool of the server, by its own name."""


NamedHostedTool = HostedToolChoice | McpToolChoice
