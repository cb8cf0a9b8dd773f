"""The request of `POST /v1/responses`.

`input`, `tools` and `tool_choice` have the type `Any` here. `server.inbound` reads them, as its
errors name one field, where those of a pydantic union name one for each of some thirty item types.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from server.schemas.base import Fields, Label, Labels, Metadata, WireModel
from server.schemas.descriptions import Described, described
from server.schemas.items import InputItem
from server.schemas.sampling import SamplingFields
from server.schemas.tools import AnswerFormat, ToolChoice, Tools

RECORD = "gpt_oss:record"
"""The `include` value that asks for the record of an answer, and the field that has it."""


@described
class ConversationId(TypedDict):
    """A conversation, by its id."""

    id: str


class Reasoning(WireModel):
    """Options of the reasoning. `max_tokens`, `enabled` and `exclude` are OpenRouter's."""

    effort: Label | None = None
    """`none`, `low` (also `minimal`), `medium` (the default) or `high` (also `xhigh`, `max`)."""
    max_tokens: Annotated[Any, Described(int | None)] = None
    """The most tokens of reasoning, from 0 on."""
    enabled: bool | None = None
    """False: as the effort `none`."""
    exclude: bool | None = None
    """True: the model reasons, and the answer does not show it."""
    summary: Literal["auto", "concise", "detailed"] | None = None
    """How long summaries of the reasoning are, where the server makes any. Null: none."""
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    """Deprecated: as `summary`."""
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    """`all_turns` repeats the reasoning of answered turns in the prompt."""


class TextConfig(WireModel):
    """Options of the answer's text."""

    format: Annotated[Fields | None, Described(AnswerFormat | None)] = None
    """The form of the answer, by default free text."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """`low` and `high` become an instruction to the model."""


class CreateResponse(SamplingFields):
    """The request body. A field that is null is the same as one that is absent.

    All sampling fields except `temperature` and `top_p` are extensions of this server.
    """

    model: Label | None = None
    """A served name. By default the first one."""
    input: Annotated[Any, Described(str | list[InputItem] | None)] = None
    """A text of the user, or items: the conversation and what is new in it."""
    instructions: str | None = None
    """Text for the developer message. It applies to this request only."""
    previous_response_id: Label | None = None
    """The stored response to continue. Not beside `conversation`."""
    tools: Annotated[Any, Described(Tools)] = None
    """The tools that the model may call: the client's, and hosted ones, which the server runs."""
    tool_choice: Annotated[Any, Described(ToolChoice)] = None
    """Which tools the model may or must call, by default `auto`."""
    parallel_tool_calls: bool | None = None
    """False: at most one call."""
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    """The most calls of hosted tools in the answer. Further calls are not run."""
    text: TextConfig | None = None
    """The form and the length of the answer."""
    reasoning: Reasoning | None = None
    """How the model reasons."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of the answer, reasoning included."""
    include: Labels | None = None
    """What the answer has beside its defaults.

    `reasoning.encrypted_content`: encrypted reasoning. `message.output_text.logprobs`: logprobs.
    `code_interpreter_call.outputs`: what code printed and drew. `web_search_call.action.sources`:
    the pages that a search found. `gpt_oss:record`: an extension, the tokens of the prompt and of
    the answer, when each was sampled, the grammar and the logprobs of all sampled tokens. It is
    refused where reasoning is hidden. Others have no effect.
    """
    store: bool | None = None
    """Whether the response is stored, by default true."""
    stream: bool | None = None
    """True: the answer is a stream of events."""
    stream_options: Fields | None = None
    """Accepted, without effect."""
    return_token_ids: bool | None = None
    """True: the response has `prompt_token_ids` and `token_ids`.

    Refused where reasoning is hidden.
    """
    truncation: Literal["auto", "disabled"] | None = None
    """`auto` removes the user's oldest messages, each with all that follows it, where the prompt is
    too long. By default that is an error."""
    metadata: Metadata | None = None
    """Up to 16 key-value pairs of the stored response."""
    service_tier: Label | None = None
    """`priority` starts earlier, `flex` later. All others are as `default`."""
    safety_identifier: Label | None = None
    """Accepted, without effect."""
    prompt_cache_key: Label | None = None
    """Requests with the same key go to the same engine."""
    user: Label | None = None
    """Accepted, without effect."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """The alternatives that are shown for each token of the answer."""

    access_programs: Any = None
    """Accepted, without effect."""
    background_options: Any = None
    """Accepted, without effect."""
    client_metadata: Any = None
    """Accepted, without effect."""
    image: Any = None
    """Accepted, without effect."""
    prompt_cache_options: Any = None
    """Accepted, without effect."""
    prompt_cache_retention: Any = None
    """Accepted, without effect."""

    background: bool | None = None
    """True: the response is returned as soon as it is queued.

    It runs on when its client leaves.
    """
    context_management: Any = None
    """Refused unless it is null or empty."""
    conversation: Annotated[Any, Described(str | ConversationId | None)] = None
    """The conversation to continue. The response adds its items to it."""
    moderation: Any = None
    """Refused unless it is null or empty."""
    prompt: Any = None
    """Refused unless it is null or empty."""


class CompactResponse(WireModel):
    """The body of `POST /v1/responses/compact`. A null field is the same as an absent one.

    Source: https://platform.openai.com/docs/api-reference/responses/compact
    """

    model: Label
    """A served name."""
    input: Annotated[Any, Described(str | list[InputItem] | None)] = None
    """The conversation."""
    instructions: str | None = None
    """Text for the developer message."""
    previous_response_id: Label | None = None
    """The stored response that the conversation ends with."""
    prompt_cache_key: Label | None = None
    """Requests with the same key go to the same engine."""
