"""The sampling fields that the requests of all APIs share."""

from typing import Annotated, Any

from pydantic import Field

from server.schemas.base import WireModel, at_most
from server.schemas.limits import MAX_BIASES

Integer64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class SamplingFields(WireModel):
    """Sampling parameters. A field that is null is the same as one that is absent.

    `server.inbound.options` checks their ranges. `top_k` has no upper limit: a value of at least
    the vocabulary's size keeps all tokens.
    """

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Annotated[dict[str, float], at_most(MAX_BIASES)] | None = None
    seed: Integer64 | None = None
    stop: Any = None

    # Extensions that servers of open models have in common.
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    # An extension of vLLM: lower values are served first.
    priority: Integer64 | None = None
