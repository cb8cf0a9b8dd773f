"""`POST /v1/completions`: the request.

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
    """The body. Null means that a field is left out."""

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

    # This server's: text spells control tokens; the answer has the ids.
    control_tokens: bool | None = None
    return_token_ids: bool | None = None

    # Accepted, and without effect here.
    user: Label | None = None

    # Refused.
    suffix: str | None = None
