"""The answers of Chat Completions and of the legacy completions."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from server.openapi.common import Metadata, Page, TokenLogprob
from server.openapi.responses import SummaryUsage, UnservedTools
from server.schemas.chat import SEAL_FORMAT
from server.schemas.descriptions import described
from server.schemas.messages import CustomCall, FunctionCall

Tier = Literal["default", "priority", "flex"]
FinishReason = Literal["stop", "length", "tool_calls", "function_call"]


@described
class ReasoningTextDetail(TypedDict):
    """Chain of thought. Deltas with the same index belong together."""

    type: Literal["reasoning.text"]
    text: str
    index: int
    format: str
    id: None
    signature: None


@described
class SealedReasoningDetail(TypedDict):
    """Encrypted chain of thought, for a client that stores it."""

    type: Literal["reasoning.encrypted"]
    data: str
    index: int
    format: Annotated[str, Field(examples=[SEAL_FORMAT])]
    id: str


@described
class SummaryReasoningDetail(TypedDict):
    """A part of the summary of the chain of thought, where the request asks for it."""

    type: Literal["reasoning.summary"]
    summary: str
    index: int
    format: str
    id: str


ReasoningDetail = TypeAliasType(
    "ReasoningDetail", ReasoningTextDetail | SummaryReasoningDetail | SealedReasoningDetail
)


@described
class FunctionCallEntry(TypedDict):
    """A call of a function, which the client runs."""

    id: str
    type: Literal["function"]
    function: FunctionCall


@described
class CustomCallEntry(TypedDict):
    """A call of a custom tool, which the client runs."""

    id: str
    type: Literal["custom"]
    custom: CustomCall


@described
class ChatUrlCitation(TypedDict):
    """The page that a part of the text comes from, and the place of the text's link to it."""

    start_index: int
    end_index: int
    title: str
    url: str


@described
class ChatAnnotation(TypedDict):
    """A citation of a web page."""

    type: Literal["url_citation"]
    url_citation: ChatUrlCitation


@described
class CompletionMessage(TypedDict):
    """The message of the model."""

    role: Literal["assistant"]
    content: str | None
    """Preambles and the answer. Null beside calls alone."""
    refusal: None
    annotations: list[ChatAnnotation]
    reasoning: NotRequired[str]
    """The chain of thought, where it is shown, or its summary, where only that is shown."""
    reasoning_content: NotRequired[str]
    """As `reasoning`, where the server runs with `--reasoning-content true`."""
    reasoning_details: NotRequired[list[ReasoningDetail]]
    tool_calls: NotRequired[list[FunctionCallEntry | CustomCallEntry]]
    function_call: NotRequired[FunctionCall]
    """Deprecated: the call of a request with `functions`."""


@described
class ChoiceLogprobs(TypedDict):
    """The logprobs of the answer's tokens."""

    content: list[TokenLogprob]
    refusal: None


@described
class PromptTokensDetails(TypedDict):
    """Of the prompts' tokens."""

    cached_tokens: int
    audio_tokens: int


@described
class CompletionTokensDetails(TypedDict):
    """Of the sampled tokens."""

    reasoning_tokens: int
    audio_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


@described
class CompletionUsage(TypedDict):
    """How many tokens the prompt and all answers took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    server_tool_use: NotRequired[dict[str, int]]
    """Extension, as OpenRouter has it: the calls of hosted tools, where the request names any."""
    server_tool_use_details: NotRequired[dict[str, int]]
    """Equal to `server_tool_use`."""


@described
class ChatChoice(TypedDict):
    """One answer."""

    index: int
    message: CompletionMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason
    token_ids: NotRequired[list[int]]
    """Extension, where `return_token_ids` asks for it."""


@described
class CompletionHead(TypedDict):
    """What completions and chunks have in common."""

    id: str
    created: int
    """In Unix seconds."""
    model: str
    system_fingerprint: str
    """The server's version."""


@described
class ChatHead(CompletionHead):
    """What chat completions and their chunks have in common."""

    service_tier: Tier
    summary_usage: NotRequired[SummaryUsage]
    """Extension: what summaries took; only where a model wrote any."""
    unserved_tools: NotRequired[UnservedTools]
    """Extension: the kinds of the request's tools that this server does not have."""
    prompt_token_ids: NotRequired[list[int]]
    """Extension, where `return_token_ids` asks for it."""


@described
class ChatCompletion(ChatHead):
    """A chat completion."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: CompletionUsage


@described
class FunctionDelta(TypedDict):
    """A piece of a function's call."""

    name: NotRequired[str]
    arguments: str


@described
class CustomDelta(TypedDict):
    """A piece of a custom tool's call."""

    name: NotRequired[str]
    input: str


@described
class CallDelta(TypedDict):
    """A piece of a call. The first has the id, the type and the name."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function", "custom"]]
    function: NotRequired[FunctionDelta]
    custom: NotRequired[CustomDelta]


@described
class Delta(TypedDict):
    """What a chunk adds to the message."""

    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str | None]
    annotations: NotRequired[list[ChatAnnotation]]
    """Citations whose link is the delta's content."""
    refusal: NotRequired[None]
    reasoning: NotRequired[str]
    reasoning_content: NotRequired[str]
    reasoning_details: NotRequired[list[ReasoningDetail]]
    tool_calls: NotRequired[list[CallDelta]]
    function_call: NotRequired[FunctionDelta]


@described
class ChunkChoice(TypedDict):
    """What a chunk adds to one answer."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason | None
    token_ids: NotRequired[list[int]]


@described
class ChatChunk(ChatHead):
    """A piece of a chat completion."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
    """Empty in the last chunk, which has the usage."""
    usage: NotRequired[CompletionUsage | None]
    """Where `stream_options.include_usage` asks for it. Null but in the last chunk."""


@described
class StoredChatCompletion(ChatCompletion):
    """A stored completion, with settings that its request had."""

    metadata: Metadata
    input_user: NotRequired[str]
    frequency_penalty: NotRequired[float]
    presence_penalty: NotRequired[float]
    response_format: NotRequired[dict[str, Any]]
    seed: NotRequired[int]
    temperature: NotRequired[float]
    tool_choice: NotRequired[str | dict[str, Any]]
    tools: NotRequired[list[dict[str, Any]]]
    top_p: NotRequired[float]


@described
class ChatCompletionPage(Page):
    """A page of stored completions."""

    data: list[StoredChatCompletion]


@described
class StoredMessage(TypedDict):
    """A message of a stored completion's request, with the other fields that it was sent with."""

    id: str
    role: str
    content: NotRequired[str | None]
    """Null where the content is in parts."""
    content_parts: list[dict[str, Any]] | None


@described
class MessagePage(Page):
    """A page of messages."""

    data: list[StoredMessage]


@described
class LegacyLogprobs(TypedDict):
    """The logprobs of the text's tokens."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]
    """Where each token begins, in characters."""


@described
class LegacyChoice(TypedDict):
    """One answer, or in a stream what is added to it."""

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    prompt_token_ids: NotRequired[list[int]]
    token_ids: NotRequired[list[int]]


@described
class Completion(CompletionHead):
    """Completions of raw prompts."""

    object: Literal["text_completion"]
    choices: list[LegacyChoice]
    usage: CompletionUsage


@described
class CompletionChunk(CompletionHead):
    """A piece of completions of raw prompts."""

    object: Literal["text_completion"]
    choices: list[LegacyChoice]
    """Empty in the last chunk, which has the usage."""
    usage: NotRequired[CompletionUsage | None]
    """Where `stream_options.include_usage` asks for it. Null but in the last chunk."""
