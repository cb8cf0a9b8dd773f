"""`POST /v1/completions`: the request.

Source: https://platform.openai.com/docs/api-reference/completions/create
"""

from typing import Annotated, Any

from pydantic import Field

from server.schemas.base import WireModel
from server.schemas.chat import StreamOptions

MAX_BEST_OF = 20
Count = Annotated[int, Field(ge=1)]


class CreateCompletion(WireModel):
    """The body. Null means that a field is left out."""

    model: str
    prompt: Any = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_BEST_OF)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    max_tokens: Count | None = None
    stop: Any = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    prompt_cache_key: str | None = None

    # This server's: text spells control tokens; the answer has the ids.
    control_tokens: bool | None = None
    return_token_ids: bool | None = None

    # Accepted, and without effect here.
    user: str | None = None

    # Refused.
    suffix: str | None = None
