"""The text of a content field, of either API: a string, or a list of parts.

gpt-oss reads text only. What is no text is replaced by a note that tells the model what was left
out; audio is refused, since leaving it out would change the answer beyond recognition.
"""

from typing import Any

from server.inbound.fields import invalid, mapping, string

_TEXT = {
    "input_text": "text",
    "output_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "text": "text",
}
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
    return separator.join(_part(part, f"{param}.{index}") for index, part in enumerate(value))


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
    named = f" {name!r}" if isinstance(name, str) else ""
    return f"[{what}{named} left out: this model reads text only]"
