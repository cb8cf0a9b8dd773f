"""The request of `POST /v1/chat/completions`.

Messages, tools, tool choices and formats have the type `Any` here. `server.inbound` reads them, as
its errors name one field, where those of a pydantic union name one for each alternative.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from server.schemas.base import Choices, Label, Labels, Metadata, WireModel, at_most
from server.schemas.limits import MAX_LISTED
from server.schemas.sampling import SamplingFields

ALIAS = "reasoning_content"
"""Another name of the field `reasoning`, which some clients use."""
SEAL_FORMAT = "openai-responses-v1"
"""The format of sealed reasoning, as in the field `encrypted_content` of the Responses API."""


class StreamOptions(WireModel):
    """Options of a stream. Obfuscation is never added."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class UsageOptions(WireModel):
    """OpenRouter's field that requests the usage at the end of a stream."""

    include: bool | None = None


class UpdateChatCompletion(WireModel):
    """The body of an update: metadata that replaces the stored metadata."""

    metadata: Metadata | None


class CreateChatCompletion(SamplingFields):
    """The request body. A field that is null is the same as one that is absent."""

    model: Label
    messages: Any
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Choices | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    function_call: Any = None
    response_format: Any = None
    reasoning_effort: Any = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    prompt_cache_key: Label | None = None
    service_tier: Label | None = None

    # OpenRouter's.
    usage: UsageOptions | None = None
    reasoning: Any = None
    include_reasoning: Any = None

    # As in Responses.
    include: Annotated[list[Literal["reasoning.encrypted_content"]], at_most(MAX_LISTED)] | None = (
        None
    )

    # vLLM's.
    return_token_ids: bool | None = None

    # Accepted without effect.
    prediction: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Label | None = None
    user: Label | None = None

    # Refused if they request a feature that is not supported.
    audio: Any = None
    modalities: Labels | None = None
    moderation: Any = None
    web_search_options: Any = None

    @property
    def include_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        flags = (
            self.stream_options and self.stream_options.include_usage,
            self.usage and self.usage.include,
        )
        return any(flags)
