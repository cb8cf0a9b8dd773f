"""What the sandbox `http` and its service exchange: errors, limits, and events as JSON lines."""

import base64
import dataclasses
import json
from collections.abc import Mapping
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
    SandboxFile,
    SandboxLimits,
    SandboxUnavailable,
)

ALIVE_SECONDS = 10.0
"""How long a cell may be silent before the service sends an empty line."""
_MOST_SECONDS = 1e9

STATUSES: dict[type[SandboxError], int] = {
    NoSuchSession: 404,
    NoSuchFile: 404,
    FileTooLarge: 413,
    SandboxUnavailable: 503,
}
_ERRORS = {error.__name__: error for error in STATUSES}


class InvalidBody(ValueError):
    """What was sent is not what the other side expects. The message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class CellRequest:
    """A cell to run. timeout: seconds after which it is interrupted."""

    code: str
    timeout: float


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceStatus:
    """Why sessions cannot run, None if they can; and the layers that were tried."""

    problem: str | None
    layers: Mapping[str, str]


def decode_json(content: str | bytes | bytearray) -> Any:
    """The value of a text in JSON. Raises InvalidBody."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidBody("it is not JSON") from error


def encode_key(key: str) -> bytes:
    """The bytes of a key. An environment variable that is not UTF-8 has surrogates in Python."""
    return key.encode("utf-8", "surrogateescape")


def encode_error(error: SandboxError) -> tuple[int, dict[str, str]]:
    """The status and the body of an error."""
    return STATUSES.get(type(error), 500), {"error": type(error).__name__, "message": str(error)}


def decode_error(body: Any, status: int) -> SandboxError:
    """The error of a body; SandboxUnavailable for one that is not the service's."""
    match body:
        case {"error": str(name), "message": str(message)} if name in _ERRORS:
            return _ERRORS[name](message)
    return SandboxUnavailable(f"the sandbox answered with status {status}")


def encode_limits(limits: SandboxLimits) -> dict[str, int]:
    """The limits as JSON."""
    return dataclasses.asdict(limits)


def decode_limits(body: Any) -> SandboxLimits:
    """The limits of a body. Raises InvalidBody."""
    names = {field.name for field in dataclasses.fields(SandboxLimits)}
    if not isinstance(body, dict) or not set(body) <= names:
        raise InvalidBody(f"limits are an object with {', '.join(sorted(names))}")
    if not all(type(value) is int and value > 0 for value in body.values()):
        raise InvalidBody("limits are positive integers")
    return SandboxLimits(**body)


def decode_cell(body: Any) -> CellRequest:
    """The cell of a body. Raises InvalidBody."""
    match body:
        case {"code": str(code), "timeout": int() | float() as timeout} if (
            0 <= timeout <= _MOST_SECONDS
        ):
            return CellRequest(code, float(timeout))
    raise InvalidBody("a cell is an object with its code and its timeout in seconds")


def decode_status(body: Any) -> ServiceStatus:
    """The state of the service. Raises InvalidBody."""
    match body:
        case {"problem": None | str() as problem, "layers": dict(layers)}:
            return ServiceStatus(problem, layers)
    raise InvalidBody("it has no problem and layers")


def decode_file(body: Any) -> SandboxFile:
    """A file of the service. Raises InvalidBody."""
    match body:
        case {"path": str(path), "size": int(size), "modified": int(modified)}:
            return SandboxFile(path, size, modified)
    raise InvalidBody("a file has a path, a size and a time")


def decode_files(body: Any) -> list[SandboxFile]:
    """The files of the service. Raises InvalidBody."""
    if not isinstance(body, list):
        raise InvalidBody("it is no list of files")
    return [decode_file(each) for each in body]


def encode_event(event: CellEvent | SandboxError) -> bytes:
    """The event, or what the cell raised, as a line."""
    match event:
        case SandboxError():
            fields = {"type": "error", **encode_error(event)[1]}
        case OutputText(stream, text):
            fields = {"type": "text", "stream": stream, "text": text}
        case OutputImage(media_type, data):
            content = base64.b64encode(data).decode()
            fields = {"type": "image", "media_type": media_type, "data": content}
        case CellEnd(outcome, reason):
            fields = {"type": "end", "outcome": outcome, "reason": reason}
    return json.dumps(fields).encode() + b"\n"


def decode_event(line: str) -> CellEvent:
    """The event of a line. Raises ValueError, and the SandboxError of a line that has one."""
    match decode_json(line):
        case {"type": "error", **body}:
            raise decode_error(body, 500)
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
    raise InvalidBody("an unknown event")
