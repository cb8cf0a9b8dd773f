"""How and when tokens are drawn: the fields that the requests of all APIs share."""

from typing import Annotated, Any

from pydantic import Field

from server.schemas.base import WireModel, at_most
from server.schemas.limits import MAX_BIASES

Integer64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class SamplingFields(WireModel):
    """Null means that a field is left out. Their ranges are checked by server.inbound.options.

    `top_k` has none: from the vocabulary's size on it keeps all tokens.
    """

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Annotated[dict[str, float], at_most(MAX_BIASES)] | None = None
    seed: Integer64 | None = None
    stop: Any = None

    # Those of other servers of open models.
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    # vLLM's: lower is served earlier.
    priority: Integer64 | None = None
