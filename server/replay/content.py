"""The text of a content field, of either API: a string, or a list of parts.

gpt-oss reads text only. What is no text is replaced by a note that tells the model what was left
out, or refused where the server is told so; audio is always refused, since leaving it out would
change the answer beyond recognition.
"""

from typing import Any, Literal

from server.errors import InvalidRequest
from server.schemas.fields import array, invalid, mapping, string

_TEXT = {
    "input_text": "text",
    "output_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "text": "text",
}
Policy = Literal["placeholder", "error"]
"""What becomes of input that the model cannot read: a note in its place, or a 400."""

_MAX_NAME = 255

_LEFT_OUT = {
    "file": "file",
    "image_url": "image",
    "input_file": "file",
    "input_image": "image",
    "input_video": "video",
    "video_url": "video",
}


def text_of(value: Any, param: str, *, separator: str = "\n") -> str:
    """The text, parts joined by `separator`. Raises InvalidRequest naming the part."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise invalid(param, "expected a string or an array of content parts", "invalid_type")
    parts = enumerate(array(value, param))
    return separator.join(_part(part, f"{param}.{index}") for index, part in parts)


def refuse_left_out(messages: Any, param: str) -> None:
    """Raises InvalidRequest naming the first part of messages or items that would be left out.

    What is no list of objects passes: whoever reads it names what is wrong with it.
    """
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        for field in ("content", "output"):
            parts = message.get(field) if isinstance(message, dict) else None
            for at, part in enumerate(parts if isinstance(parts, list) else ()):
                kind = part.get("type") if isinstance(part, dict) else None
                if isinstance(kind, str) and kind in _LEFT_OUT:
                    raise unread(kind, f"{param}.{index}.{field}.{at}")


def unread(kind: str, param: str) -> InvalidRequest:
    """The error for input of a kind that the model cannot be shown."""
    problem = f"this model reads text only, and this server refuses '{kind}'"
    return invalid(param, problem, "unsupported_input")


def _part(value: Any, param: str) -> str:
    part = mapping(value, param)
    kind = string(part.get("type"), f"{param}.type")
    if field := _TEXT.get(kind):
        return string(part.get(field), f"{param}.{field}")
    if what := _LEFT_OUT.get(kind):
        return _left_out(what, part)
    raise invalid(f"{param}.type", f"content of type '{kind}' is not supported")


def _left_out(what: str, part: dict[str, Any]) -> str:
    nested = part.get("file")
    name = (nested if isinstance(nested, dict) else part).get("filename")
    named = f" {name[:_MAX_NAME]!r}" if isinstance(name, str) else ""
    return f"[{what}{named} left out: this model reads text only]"
