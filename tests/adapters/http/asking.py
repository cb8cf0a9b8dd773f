"""Requests to the engines of recorded exchanges."""

from typing import Any

from adapters.base import GenerationRequest
from harmony.vocab import RETURN


def ask(**fields: Any) -> GenerationRequest:
    """At most four tokens, until `<|return|>`."""
    usual: dict[str, Any] = {"max_tokens": 4, "stop_token_ids": frozenset({RETURN})}
    return GenerationRequest("r", (200006, 1428), **usual | fields)
