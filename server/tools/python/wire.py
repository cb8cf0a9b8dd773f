"""What the sandbox `http` and its service exchange: errors, limits, and events as JSON lines."""

import base64
import dataclasses
import json
from typing import Any

from server.tools.python.sandbox import (
    CellEnd,
    CellEvent,
    FileTooLarge,
    NoSuchFile,
    NoSuchSession,
    OutputImage,
    OutputText,
    SandboxError,
    SandboxLimits,
    SandboxUnavailable,
)

ALIVE_SECONDS = 10.0
"""How long a cell may be silent before the service sends an empty line."""

STATUSES: dict[type[SandboxError], int] = {
    NoSuchSession: 404,
    NoSuchFile: 404,
    FileTooLarge: 413,
    SandboxUnavailable: 503,
}
_ERRORS = {error.__name__: error for error in STATUSES}


def encode_error(error: SandboxError) -> tuple[int, dict[str, str]]:
    """The status and the body of an error."""
    return STATUSES.get(type(error), 500), {"error": type(error).__name__, "message": str(error)}


def decode_error(body: Any, status: int) -> SandboxError:
    """The error of a body; SandboxError for one that is not the service's."""
    match body:
        case {"error": str(name), "message": str(message)} if name in _ERRORS:
            return _ERRORS[name](message)
    return SandboxUnavailable(f"the sandbox answered with status {status}")


def encode_limits(limits: SandboxLimits) -> dict[str, int]:
    """The limits as JSON."""
    return dataclasses.asdict(limits)


def decode_limits(body: Any) -> SandboxLimits:
    """The limits of a body. Raises ValueError."""
    names = {field.name for field in dataclasses.fields(SandboxLimits)}
    if not isinstance(body, dict) or not set(body) <= names:
        raise ValueError(f"limits are an object with {', '.join(sorted(names))}")
    if not all(isinstance(value, int) and value > 0 for value in body.values()):
        raise ValueError("limits are positive integers")
    return SandboxLimits(**body)


def encode_event(event: CellEvent) -> bytes:
    """The event as a line."""
    match event:
        case OutputText(stream, text):
            fields = {"type": "text", "stream": stream, "text": text}
        case OutputImage(media_type, data):
            content = base64.b64encode(data).decode()
            fields = {"type": "image", "media_type": media_type, "data": content}
        case CellEnd(outcome, reason):
            fields = {"type": "end", "outcome": outcome, "reason": reason}
    return json.dumps(fields).encode() + b"\n"


def decode_event(line: str) -> CellEvent:
    """The event of a line. Raises ValueError."""
    match json.loads(line):
        case {
            "type": "text",
            "stream": "stdout" | "stderr" | "result" | "error" as stream,
            "text": str(text),
        }:
            return OutputText(stream, text)
        case {"type": "image", "media_type": str(media_type), "data": str(data)}:
            return OutputImage(media_type, base64.b64decode(data))
        case {
            "type": "end",
            "outcome": "completed" | "raised" | "timeout" | "died" as outcome,
            "reason": str(reason),
        }:
            return CellEnd(outcome, reason)
    raise ValueError("an unknown event")
