"""What the chunks of Chat and of the legacy completions have in common.

What was used is the last chunk of all, without choices; who has not asked for it does not get to
see it (`encoder`), but a fold does.
"""

from collections.abc import Sequence
from typing import Any

from server.generation.runs import Encode, WireEvent
from server.generation.turn_events import Usage
from server.outbound.encoding import unnamed
from server.outbound.usage import usage_object


def head(
    kind: str, completion_id: str, *, created: int, model: str, include_usage: bool, **fields: Any
) -> dict[str, Any]:
    """What is the same in all chunks. kind: their `object`. created: in Unix seconds."""
    shared = {
        "id": completion_id,
        "object": kind,
        "created": created,
        "model": model,
        "system_fingerprint": None,
        **fields,
    }
    return {**shared, "usage": None} if include_usage else shared


def usage_chunk(shared: dict[str, Any], usages: Sequence[Usage], *, per_prompt: int) -> WireEvent:
    """The last chunk: what all prompts took, and all of their `per_prompt` choices sampled."""
    return {**shared, "choices": [], "usage": usage_object(usages[::per_prompt], usages)}


def encoder(*, include_usage: bool) -> Encode:
    """How the chunks of a stream are written."""
    return unnamed if include_usage else _without_usage


def _without_usage(chunk: WireEvent) -> bytes:
    return b"" if chunk.get("choices") == [] else unnamed(chunk)
