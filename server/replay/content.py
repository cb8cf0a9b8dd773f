"""Reads the text of a content field of either API: a string, or a list of parts.

gpt-oss reads text only. By default an image, a video or a file is replaced by a note for the model;
the server can be configured to refuse it. Audio is always refused: it is usually the question
itself, which no note can replace.
"""

from typing import Any, Literal

from server.errors import InvalidRequest
from server.schemas.fields import array, invalid, mapping, required, string, wrong_type

_TEXT = {
    "input_text": "text",
    "output_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "text": "text",
}
Policy = Literal["placeholder", "error"]
"""What becomes of input that the model cannot read: a note replaces it, or the status is 400."""

_MAX_NAME = 255

_UNREADABLE = {
    "file": "file",
    "image_url": "image",
    "input_file": "file",
    "input_image": "image",
    "input_video": "video",
    "video_url": "video",
}


def text_of(value: Any, param: str, *, separator: str = "\n") -> str:
    """The text of a content field, with `separator` between parts.

    Raises InvalidRequest whose `param` is `param`, or under it for a part.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(value, param, str, list)
    parts = enumerate(array(value, param))
    return separator.join(_part(part, f"{param}.{index}") for index, part in parts)


def refuse_unreadable(messages: Any, param: str) -> None:
    """Raises InvalidRequest naming the first part, in messages or items, that is not text.

    Values of a wrong type pass: the functions that read them report the error.
    """
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        for field in ("content", "output"):
            parts = message.get(field) if isinstance(message, dict) else None
            for at, part in enumerate(parts if isinstance(parts, list) else ()):
                kind = part.get("type") if isinstance(part, dict) else None
                if isinstance(kind, str) and kind in _UNREADABLE:
                    raise unsupported_input(kind, f"{param}.{index}.{field}.{at}")


def unsupported_input(kind: str, param: str) -> InvalidRequest:
    """The error for input of a kind that the model cannot read."""
    problem = f"this model reads text only, and this server refuses '{kind}'"
    return invalid(param, problem, "unsupported_input")


def _part(value: Any, param: str) -> str:
    part = mapping(value, param)
    kind = required(part, "type", param, string)
    if field := _TEXT.get(kind):
        return required(part, field, param, string)
    if what := _UNREADABLE.get(kind):
        return _note(what, part)
    if kind == "input_audio":
        raise unsupported_input(kind, param)
    raise invalid(f"{param}.type", f"content of type '{kind}' is not supported")


def _note(what: str, part: dict[str, Any]) -> str:
    nested = part.get("file")
    name = (nested if isinstance(nested, dict) else part).get("filename")
    quoted = f" {name[:_MAX_NAME]!r}" if isinstance(name, str) else ""
    return f"[{what}{quoted} left out: this model reads text only]"
