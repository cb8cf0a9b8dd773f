"""The sampling fields that the requests of all APIs share."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from server.schemas.base import WireModel, at_most
from server.schemas.descriptions import Described
from server.schemas.limits import MAX_BIASES


def _up_to_first_fault(value: Any) -> Any:
    """An object without its other members if one is no number.

    pydantic makes an error for each such member, of which only the first is reported.
    """
    if isinstance(value, dict):
        for name, member in value.items():
            if type(member) not in (int, float):
                return {name: member}
    return value


Integer64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Biases = Annotated[
    dict[str, float], BeforeValidator(_up_to_first_fault), at_most(MAX_BIASES)
]  # from the last validator to the first


class SamplingFields(WireModel):
    """Sampling parameters. A field that is null is the same as one that is absent.

    `server.inbound.options` checks their ranges. `top_k` has no upper limit: a value of at least
    the vocabulary's size keeps all tokens.
    """

    temperature: float | None = None
    """From 0 to 2, by default 1."""
    top_p: float | None = None
    """From 0 to 1, by default 1."""
    presence_penalty: float | None = None
    """From -2 to 2, by default 0. Applies to the answer, not to reasoning and calls."""
    frequency_penalty: float | None = None
    """From -2 to 2, by default 0. Applies to the answer, not to reasoning and calls."""
    logit_bias: Biases | None = None
    """From -100 to 100 for each token id. Applies to the answer, not to reasoning and calls."""
    seed: Integer64 | None = None
    """The same seed gives the same tokens, where the engine computes the same logits."""
    stop: Annotated[Any, Described(str | list[str] | None)] = None
    """Up to four strings that end the answer; each has up to 4096 characters."""

    # Extensions that servers of open models have in common.
    top_k: int | None = None
    """At least 1; 0 and -1 mean all tokens."""
    min_p: float | None = None
    """From 0 to 1, by default 0."""
    repetition_penalty: float | None = None
    """From 0.01 to 100, by default 1. Applies to the answer alone."""

    # An extension of vLLM: lower values are served first.
    priority: Integer64 | None = None
    """From -1000 to 1000: requests with lower numbers start earlier. By default the tier's."""
