"""The request of `POST /v1/chat/completions`.

Messages, tools, tool choices and formats have the type `Any` here. `server.inbound` reads them, as
its errors name one field, where those of a pydantic union name one for each alternative.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from server.schemas.base import Choices, Label, Labels, Metadata, WireModel, at_most
from server.schemas.descriptions import Described, described
from server.schemas.hosted_tools import Plugin, WebSearchOptions
from server.schemas.limits import MAX_LISTED
from server.schemas.messages import InputMessage
from server.schemas.sampling import SamplingFields
from server.schemas.tools import (
    ChatAnswerFormat,
    ChatToolChoice,
    ChatTools,
    FunctionDefinition,
    ToolName,
)

ALIAS = "reasoning_content"
"""Another name of the field `reasoning`, which some clients use."""
TEXT_DETAIL = "reasoning.text"
"""The type of an entry of `reasoning_details` with raw reasoning."""
SUMMARY_DETAIL = "reasoning.summary"
"""The type of an entry with a summary."""
SEAL_DETAIL = "reasoning.encrypted"
"""The type of an entry with sealed reasoning."""
SEAL_FORMAT = "openai-responses-v1"
"""The format of sealed reasoning, as in the field `encrypted_content` of the Responses API."""


EffortName = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
LegacyFunctionChoice = Literal["none", "auto"] | ToolName | None


@described
class ReasoningOptions(TypedDict):
    """How the model reasons, in OpenRouter's form. It wins over `reasoning_effort`."""

    effort: NotRequired[EffortName | None]
    max_tokens: NotRequired[int | None]
    """The most tokens of reasoning, from 0 on."""
    enabled: NotRequired[bool | None]
    """False: as effort `none`."""
    summary: NotRequired[Literal["auto", "concise", "detailed"] | None]
    """How long summaries of the reasoning are, where the server makes any. Null: none."""
    exclude: NotRequired[bool | None]
    """True: the model reasons, and the answer does not show it."""


class StreamOptions(WireModel):
    """Options of a stream. Obfuscation is never added."""

    include_usage: bool | None = None
    """True: the last chunk has the usage."""
    include_obfuscation: bool | None = None
    """Accepted, without effect."""


class UsageOptions(WireModel):
    """OpenRouter's field that requests the usage at the end of a stream."""

    include: bool | None = None
    """True: as `stream_options.include_usage`."""


class UpdateChatCompletion(WireModel):
    """The body of an update: metadata that replaces the stored metadata."""

    metadata: Metadata | None


class CreateChatCompletion(SamplingFields):
    """The request body. A field that is null is the same as one that is absent."""

    model: Label
    """A served name."""
    messages: Annotated[Any, Described(list[InputMessage])]
    """The conversation, the oldest message first."""
    stream: bool | None = None
    """True: the answer is a stream of chunks."""
    stream_options: StreamOptions | None = None
    """What a stream has beside its deltas."""
    n: Choices | None = None
    """How many answers are sampled. Each has a seed of its own."""
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of the answer, reasoning included."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Deprecated: as `max_completion_tokens`."""
    logprobs: bool | None = None
    """True: the answer has the logprobs of its tokens."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """The alternatives that are shown for each token. It needs `logprobs`."""
    tools: Annotated[Any, Described(ChatTools)] = None
    """The tools that the model may call: the client's, and hosted ones, which the server runs."""
    tool_choice: Annotated[Any, Described(ChatToolChoice)] = None
    """Which tools the model may or must call, by default `auto`."""
    parallel_tool_calls: bool | None = None
    """False: at most one call."""
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    """The most calls of hosted tools in an answer, as in Responses. Further calls are not run."""
    functions: Annotated[Any, Described(list[FunctionDefinition] | None)] = None
    """Deprecated: as `tools`, all of them functions. Not beside `tools`."""
    function_call: Annotated[Any, Described(LegacyFunctionChoice)] = None
    """Deprecated: as `tool_choice`."""
    response_format: Annotated[Any, Described(ChatAnswerFormat)] = None
    """The form of the answer, by default free text."""
    reasoning_effort: Annotated[Any, Described(EffortName | None)] = None
    """How hard the model reasons, by default `medium`."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """`low` and `high` become an instruction to the model."""
    metadata: Metadata | None = None
    """Up to 16 key-value pairs of the stored completion."""
    store: bool | None = None
    """True: the completion is stored. False: the reasoning before its calls is not remembered."""
    prompt_cache_key: Label | None = None
    """Requests with the same key go to the same engine."""
    service_tier: Label | None = None
    """`priority` starts earlier, `flex` later. All others are as `default`."""

    # OpenRouter's.
    usage: UsageOptions | None = None
    """OpenRouter's way to ask for the usage of a stream."""
    reasoning: Annotated[Any, Described(ReasoningOptions | None)] = None
    """How the model reasons, in OpenRouter's form. It wins over `reasoning_effort`."""
    plugins: Annotated[Any, Described(list[Plugin] | None)] = None
    """OpenRouter's plugins. `web` is the hosted tool `web_search`. Others have no effect."""
    include_reasoning: Annotated[Any, Described(bool | None)] = None
    """False: the model reasons, and the answer does not show it."""

    web_search_options: Annotated[Any, Described(WebSearchOptions | None)] = None
    """The hosted tool `web_search`. Refused where the server has none."""

    # As in Responses.
    include: Annotated[list[Literal["reasoning.encrypted_content"]], at_most(MAX_LISTED)] | None = (
        None
    )
    """`reasoning.encrypted_content` adds encrypted reasoning."""

    # vLLM's.
    return_token_ids: bool | None = None
    """True: the answer has the ids of the prompt and of the sampled tokens. Refused where reasoning
    is hidden.
    """

    # Accepted without effect.
    prediction: Any = None
    """Accepted, without effect."""
    prompt_cache_options: Any = None
    """Accepted, without effect."""
    prompt_cache_retention: Any = None
    """Accepted, without effect."""
    safety_identifier: Label | None = None
    """Accepted, without effect."""
    user: Label | None = None
    """Accepted, without effect."""

    # Refused if they request a feature that is not supported.
    audio: Any = None
    """Refused."""
    modalities: Labels | None = None
    """`text`. Others are refused."""
    moderation: Any = None
    """Refused unless it is null or empty."""

    @property
    def include_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        flags = (
            self.stream_options and self.stream_options.include_usage,
            self.usage and self.usage.include,
        )
        return any(flags)
