"""The answers of the Responses API: the response object and its items."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from server.openapi.common import Metadata, Page, Preview, TokenLogprob
from server.openapi.hosted import Annotation, HostedItem
from server.openapi.record import SamplingRecord
from server.responses.response_object import UNSERVED_TOOLS_FIELD
from server.schemas.descriptions import described
from server.schemas.hosted_tools import EchoedHostedTool, NamedHostedTool
from server.schemas.items import InputItem, ItemStatus
from server.schemas.responses import RECORD, ConversationId
from server.schemas.tools import (
    CustomTool,
    FunctionTool,
    JsonObjectFormat,
    JsonSchemaFormat,
    Mode,
    NamedTool,
    NamespaceTool,
    TextFormat,
)
from server.summaries.base import SUMMARY_USAGE_FIELD

UnservedTools = Annotated[list[str], Field(alias=UNSERVED_TOOLS_FIELD)]


@described
class SummaryParts(TypedDict):
    """How many parts of summaries ended in which way."""

    written: int
    withheld: int
    """They would have shown what must not be shown."""
    skipped: int
    """The engine had no free slot."""
    failed: int
    late: int
    """They were not there when the reasoning had ended and the patience of the answer was over."""


@described
class SummaryUsageObject(TypedDict):
    """The tokens of a model that wrote summaries. They are not part of `usage`."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    parts: SummaryParts


SummaryUsage = Annotated[SummaryUsageObject, Field(alias=SUMMARY_USAGE_FIELD)]


@described
class OutputText(TypedDict):
    """Text of a message."""

    type: Literal["output_text"]
    text: str
    annotations: list[Annotation]
    """Citations of web pages and of files that code has written."""
    logprobs: list[TokenLogprob]
    """Empty where the request does not ask for them."""


@described
class ReasoningText(TypedDict):
    """Chain of thought."""

    type: Literal["reasoning_text"]
    text: str


@described
class OutputMessage(TypedDict):
    """What the model writes to the user."""

    type: Literal["message"]
    id: str
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputText]
    phase: Literal["commentary", "final_answer"]
    """`commentary` before a call, `final_answer` for the answer."""


@described
class SummaryText(TypedDict):
    """A part of a summary: Markdown that begins with a bold title."""

    type: Literal["summary_text"]
    text: str


@described
class ReasoningItem(TypedDict):
    """The model's chain of thought. It has no content where the server hides it."""

    type: Literal["reasoning"]
    id: str
    status: ItemStatus
    summary: list[SummaryText]
    """Empty where the request asks for no summary, or the server makes none."""
    content: list[ReasoningText]
    encrypted_content: NotRequired[str]
    """Encrypted, for a client that stores it, where `include` asks for it."""


@described
class FunctionCallItem(TypedDict):
    """A call of a function, which the client runs."""

    type: Literal["function_call"]
    id: str
    status: ItemStatus
    call_id: str
    """The id that the call's output names."""
    name: str
    arguments: str
    """JSON, as the model wrote it."""
    namespace: NotRequired[str]


@described
class CustomToolCallItem(TypedDict):
    """A call of a custom tool, which the client runs."""

    type: Literal["custom_tool_call"]
    id: str
    status: ItemStatus
    call_id: str
    """The id that the call's output names."""
    name: str
    input: str
    namespace: NotRequired[str]


@described
class CompactionItem(TypedDict):
    """A summary that the model wrote, encrypted."""

    type: Literal["compaction"]
    id: str
    encrypted_content: str


OutputItem = TypeAliasType(
    "OutputItem", OutputMessage | ReasoningItem | FunctionCallItem | CustomToolCallItem | HostedItem
)


@described
class ResponseError(TypedDict):
    """Why a response failed."""

    code: Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]
    message: str


@described
class IncompleteDetails(TypedDict):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"]


@described
class TextSettings(TypedDict):
    """What the answer's text looks like."""

    format: TextFormat | JsonObjectFormat | JsonSchemaFormat
    verbosity: Literal["low", "medium", "high"]


@described
class EchoedAllowedTools(TypedDict):
    """Only these tools may be called."""

    type: Literal["allowed_tools"]
    mode: Mode
    tools: list[NamedTool | NamedHostedTool]
    """Without those of kinds that this server does not have."""


@described
class ReasoningSettings(TypedDict):
    """How the model reasons."""

    effort: Literal["none", "low", "medium", "high"]
    summary: Literal["auto", "concise", "detailed"] | None
    context: NotRequired[Literal["current_turn", "all_turns"]]
    max_tokens: NotRequired[int]
    """Extension, where the request has it."""


@described
class InputTokensDetails(TypedDict):
    """Of the prompt's tokens."""

    cached_tokens: int
    cache_write_tokens: int


@described
class OutputTokensDetails(TypedDict):
    """Of the sampled tokens."""

    reasoning_tokens: int


@described
class ResponseUsage(TypedDict):
    """How many tokens the response took."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


@described
class Response(TypedDict):
    """A response, with the request's settings as they are applied."""

    id: str
    object: Literal["response"]
    created_at: int
    """In Unix seconds."""
    completed_at: int | None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    incomplete_details: IncompleteDetails | None
    error: ResponseError | None
    model: str
    previous_response_id: str | None
    instructions: str | None
    output: list[OutputItem]
    tools: list[FunctionTool | CustomTool | NamespaceTool | EchoedHostedTool]
    tool_choice: Mode | NamedTool | NamedHostedTool | EchoedAllowedTools
    parallel_tool_calls: bool
    max_tool_calls: int | None
    text: TextSettings
    reasoning: ReasoningSettings
    temperature: float
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    max_output_tokens: int | None
    truncation: Literal["auto", "disabled"]
    usage: ResponseUsage | None
    """Null until the response has ended, and where it failed."""
    store: bool
    background: bool
    service_tier: Literal["default", "priority", "flex"]
    metadata: Metadata
    safety_identifier: str | None
    prompt_cache_key: str | None
    conversation: NotRequired[ConversationId]
    user: NotRequired[str]
    tool_usage: NotRequired[dict[str, Any]]
    """The calls of hosted tools by type, once the response has ended; only with such tools."""
    summary_usage: NotRequired[SummaryUsage]
    """Extension: what summaries took, once the response has ended; only where a model wrote any."""
    unserved_tools: NotRequired[UnservedTools]
    """Extension: the kinds of the request's tools that this server does not have."""
    prompt_token_ids: NotRequired[list[int]]
    """Extension, where `return_token_ids` asks for it."""
    token_ids: NotRequired[list[int]]
    """Extension, where `return_token_ids` asks for it: what was sampled."""
    record: NotRequired[Annotated[SamplingRecord, Field(alias=RECORD)]]
    """Extension, where `include` asks for it."""


@described
class InputTokens(TypedDict):
    """The length of a request's prompt."""

    object: Literal["response.input_tokens"]
    input_tokens: int


@described
class Compaction(TypedDict):
    """A shorter conversation, to go on with."""

    id: str
    object: Literal["response.compaction"]
    created_at: int
    """In Unix seconds."""
    output: list[InputItem | CompactionItem]
    """The user's messages, and the summary of all else."""
    usage: ResponseUsage


StoredItem = TypeAliasType("StoredItem", OutputItem | InputItem | CompactionItem)
"""An item of either side. Those of requests are as clients sent them, with `id` and `status`."""


@described
class ListedResponse(TypedDict):
    """A response in a list, without what may be large."""

    id: str
    object: Literal["response"]
    created_at: int
    """In Unix seconds."""
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool
    model: str
    previous_response_id: str | None
    metadata: Metadata
    preview: Preview
    """The beginning of the text of its first input item; null if it has none, or if it is large."""


@described
class ResponsePage(Page):
    """A page of responses."""

    data: list[ListedResponse]


@described
class ItemPage(Page):
    """A page of items."""

    data: list[StoredItem]
