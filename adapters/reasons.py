"""Converts the finish reasons of engines."""

from adapters.base import FinishReason
from adapters.errors import BackendFailed, GenerationFailed


def finish_reason(word: str, engine: str) -> FinishReason:
    """`stop` and `length` as they are.

    Raises GenerationFailed for `error`, BackendFailed for all else, such as `abort`.
    """
    if word == "stop":
        return "stop"
    if word == "length":
        return "length"
    kind = GenerationFailed if word == "error" else BackendFailed
    raise kind(f"{engine} ended the generation: {word}")
