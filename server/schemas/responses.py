"""The request of `POST /v1/responses`.

`input`, `tools` and `tool_choice` have the type `Any` here. `server.inbound` reads them, as its
errors name one field, where those of a pydantic union name one for each of some thirty item types.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from server.schemas.base import Fields, Label, Labels, Metadata, WireModel
from server.schemas.sampling import SamplingFields


class Reasoning(WireModel):
    """Options of the reasoning. There are no summaries: the answer has the raw reasoning.

    `max_tokens` is an extension of OpenRouter.
    """

    effort: Label | None = None
    max_tokens: Any = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None


class TextConfig(WireModel):
    """Options of the answer's text."""

    format: Fields | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class CreateResponse(SamplingFields):
    """The request body. A field that is null is the same as one that is absent.

    All sampling fields except `temperature` and `top_p` are extensions of this server.
    """

    model: Label | None = None
    input: Any = None
    instructions: str | None = None
    previous_response_id: Label | None = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    include: Labels | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: Fields | None = None
    return_token_ids: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Metadata | None = None
    service_tier: Label | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None
    user: Label | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None

    access_programs: Any = None
    client_metadata: Any = None
    image: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None

    background: bool | None = None
    context_management: Any = None
    conversation: Any = None
    moderation: Any = None
    prompt: Any = None


class CompactResponse(WireModel):
    """The body of `POST /v1/responses/compact`. A null field is the same as an absent one.

    Source: https://platform.openai.com/docs/api-reference/responses/compact
    """

    model: Label
    input: Any = None
    instructions: str | None = None
    previous_response_id: Label | None = None
    prompt_cache_key: Label | None = None
