"""Converts the finish reasons of engines."""

from adapters.base import FinishReason
from adapters.errors import BackendFailed


def finish_reason(word: str, engine: str) -> FinishReason:
    """`stop` and `length` as they are. Raises BackendFailed for all else: `abort`, `error`, …."""
    if word == "stop":
        return "stop"
    if word == "length":
        return "length"
    raise BackendFailed(f"{engine} ended the generation: {word}")
