"""The request of `POST /v1/completions`.

Source: https://platform.openai.com/docs/api-reference/completions/create
"""

from typing import Annotated, Any

from pydantic import Field

from server.schemas.base import Choices, Label
from server.schemas.chat import StreamOptions
from server.schemas.descriptions import Described
from server.schemas.sampling import SamplingFields

MAX_BEST_OF = 20
Count = Annotated[int, Field(ge=1)]


class CreateCompletion(SamplingFields):
    """The request body. A field that is null is the same as one that is absent."""

    model: Label
    """A served name."""
    prompt: Annotated[Any, Described(str | list[int] | list[str | list[int]])]
    """One prompt or up to 128, each as text or as token ids. No harmony is added."""
    stream: bool | None = None
    """True: the answer is a stream of chunks."""
    stream_options: StreamOptions | None = None
    n: Choices | None = None
    """How many answers are sampled for each prompt."""
    best_of: Annotated[int, Field(ge=1, le=MAX_BEST_OF)] | None = None
    """How many are sampled for each prompt; the `n` likeliest are answered."""
    echo: bool | None = None
    """True: the prompt comes before the answer."""
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """The alternatives that are shown for each token. Refused beside `echo`."""
    max_tokens: Count | None = None
    """The most tokens of each answer."""
    prompt_cache_key: Label | None = None
    """Requests with the same key go to the same engine."""

    # Extensions of this server: the prompt may contain control tokens; the answer has token ids.
    control_tokens: bool | None = None
    """True: text that spells a control token means it."""
    return_token_ids: bool | None = None
    """True: the answer has the ids of the prompt and of the sampled tokens."""

    # Accepted without effect.
    user: Label | None = None
    """Accepted, without effect."""

    # Refused.
    suffix: str | None = None
    """Refused."""
