"""What answers of all APIs have in common, and the answers of the small endpoints."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from server.outbound.previews import PREVIEW_FIELD
from server.schemas.descriptions import described

Metadata = dict[str, str]


@described
class ErrorObject(TypedDict):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    """The field at fault, where there is one, as a dotted path."""
    code: str | None
    """What went wrong, for programs."""


@described
class Error(TypedDict):
    """The body of every error."""

    error: ErrorObject


@described
class TopLogprob(TypedDict):
    """A token that could have been sampled."""

    token: str
    logprob: float
    bytes: list[int]
    """The token's own bytes: `token` shows U+FFFD for a part of a character."""


@described
class TokenLogprob(TopLogprob):
    """A sampled token."""

    top_logprobs: list[TopLogprob]
    """The likeliest first."""


@described
class Health(TypedDict):
    """The process is alive, and its engine can serve."""

    status: Literal["ok"]


@described
class Readiness(TypedDict):
    """Whether the server takes requests."""

    status: Literal["ready", "not ready"]
    reasons: list[str]
    """Why it does not."""
    tools: dict[str, str]
    """Each hosted tool: `on`, `starting` or `off`. It concerns only requests that name it."""


@described
class Version(TypedDict):
    """What is served by what."""

    version: str
    backend: str


@described
class Model(TypedDict):
    """A served name."""

    id: str
    object: Literal["model"]
    created: int
    """When the server started, in Unix seconds."""
    owned_by: str
    max_model_len: int
    """Tokens of the context."""
    description: NotRequired[str]


@described
class ModelList(TypedDict):
    """The served names, the default first."""

    object: Literal["list"]
    data: list[Model]


@described
class Tokenized(TypedDict):
    """A text's tokens."""

    count: int
    tokens: list[int]
    token_strs: list[str] | None
    token_bytes: NotRequired[list[str]]
    """The bytes of each token as hexadecimal digits; those of a control token spell its name."""
    max_model_len: int
    """Tokens of the context."""


@described
class Detokenized(TypedDict):
    """The text of tokens, control tokens spelled out."""

    prompt: str


@described
class Rendered(TypedDict):
    """The prompt of a request, and what else the engine would get."""

    text: str
    token_ids: list[int]
    token_bytes: NotRequired[list[str]]
    """The bytes of each token as hexadecimal digits; those of a control token spell its name."""
    count: int
    max_tokens: int
    stop_token_ids: list[int]
    grammar: str | None
    """The grammar that constrains the answer, in Lark."""


@described
class Conversation(TypedDict):
    """A conversation without its items."""

    id: str
    object: Literal["conversation"]
    created_at: int
    """In Unix seconds."""
    metadata: Metadata


@described
class Page(TypedDict):
    """What all lists have. `after` with `last_id` gives the next page."""

    object: Literal["list"]
    first_id: str | None
    last_id: str | None
    has_more: bool


Preview = Annotated[str | None, Field(alias=PREVIEW_FIELD)]


@described
class ListedConversation(Conversation):
    """A conversation in a list."""

    preview: Preview
    """The beginning of the text of its first item; null if it has none, or if it is large."""


@described
class ConversationPage(Page):
    """A page of conversations."""

    data: list[ListedConversation]


@described
class DeletedResponse(TypedDict):
    """The response is deleted."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


@described
class DeletedConversation(TypedDict):
    """The conversation is deleted."""

    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


@described
class DeletedChatCompletion(TypedDict):
    """The completion is deleted."""

    id: str
    object: Literal["chat.completion.deleted"]
    deleted: Literal[True]
