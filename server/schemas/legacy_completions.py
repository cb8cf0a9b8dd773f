"""The request of `POST /v1/completions`.

Source: https://platform.openai.com/docs/api-reference/completions/create
"""

from typing import Annotated, Any

from pydantic import Field

from server.schemas.base import Choices, Label
from server.schemas.chat import StreamOptions
from server.schemas.sampling import SamplingFields

MAX_BEST_OF = 20
Count = Annotated[int, Field(ge=1)]


class CreateCompletion(SamplingFields):
    """The request body. A field that is null is the same as one that is absent."""

    model: Label
    prompt: Any = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Choices | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_BEST_OF)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    max_tokens: Count | None = None
    prompt_cache_key: Label | None = None

    # Extensions of this server: the prompt may contain control tokens; the answer has token ids.
    control_tokens: bool | None = None
    return_token_ids: bool | None = None

    # Accepted without effect.
    user: Label | None = None

    # Refused.
    suffix: str | None = None
