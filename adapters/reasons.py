"""Converts the finish reasons of engines."""

from adapters.base import FinishReason
from adapters.errors import BackendFailed, GenerationFailed


def finish_reason(word: object, engine: str) -> FinishReason:
    """`stop` and `length` as they are.

    Raises GenerationFailed for `error`, BackendFailed for all else. The messages quote words of
    engines only, since another program may send anything.
    """
    if word == "stop":
        return "stop"
    if word == "length":
        return "length"
    kind = GenerationFailed if word == "error" else BackendFailed
    quoted = word if word in ("error", "abort", "repetition") else "unknown"
    raise kind(f"{engine} ended the generation: {quoted}")
