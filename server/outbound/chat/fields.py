"""The fields, usage and encoding that chunks of Chat and of the legacy completions share.

The last chunk has the usage and no choices. `encoder` leaves it out of a stream whose client did
not request it; a fold always reads it.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from server.generation.runs import Encode, WireEvent
from server.generation.turn_events import Usage
from server.outbound.event_bytes import unnamed
from server.outbound.usage import usage_object

NO_FIELDS: Mapping[str, Any] = {}

FINGERPRINT = f"fp_{version('gpt-oss-server')}"
"""What made the answers. OpenAI's schema has no null here, and some clients refuse one."""


def chunk_fields(
    kind: str, completion_id: str, *, created: int, model: str, include_usage: bool, **fields: Any
) -> dict[str, Any]:
    """The fields that all chunks have. kind: their `object`. created: Unix time in seconds."""
    shared = {
        "id": completion_id,
        "object": kind,
        "created": created,
        "model": model,
        "system_fingerprint": FINGERPRINT,
        **fields,
    }
    return {**shared, "usage": None} if include_usage else shared


def usage_chunk(
    shared: dict[str, Any],
    usages: Sequence[Usage],
    *,
    per_prompt: int,
    more: Mapping[str, Any] = NO_FIELDS,
) -> WireEvent:
    """The last chunk, with the usage of all prompts and of all choices.

    usages: one for each choice. per_prompt: how many consecutive choices share a prompt. more:
    additional fields of the usage.
    """
    usage = usage_object(usages[::per_prompt], usages)
    return {**shared, "choices": [], "usage": {**usage, **more}}


def encoder(*, include_usage: bool) -> Encode:
    """The function that encodes a chunk of a stream as server-sent event."""
    return unnamed if include_usage else _unnamed_except_usage


def _unnamed_except_usage(chunk: WireEvent) -> Sequence[bytes]:
    # Without `include_usage`, no other chunk has the field.
    return (b"",) if "usage" in chunk else unnamed(chunk)
