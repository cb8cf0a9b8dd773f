"""What a cell returned: as text for the model, and as the outputs of the API's item."""

import base64
import re
from typing import Any

from server.tools.python.sandbox import OutputImage, OutputText

MOST_TEXT = 1 << 20
"""Bytes of output that the model reads. More is cut in the middle."""

MOST_OUTPUTS = 32 << 20
"""Bytes of JSON that the API shows of all cells of an answer. The answer has each several times, in
events, in its items and in the store."""

LEFT_OUT = "[Outputs are left out here: those of the answer took more than 32 MiB.]"
NO_OUTPUT = "[No output. Print a value, or end the cell with it, to see it.]"
_SURROGATES = re.compile("[\ud800-\udfff]")
_LONG_ESCAPES = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
"""The bytes that JSON writes as six."""


class CellOutput:
    """The output of a cell, collected in the order in which it came.

    left: bytes that `outputs` may take; after it, what they leave to the next cell.
    """

    def __init__(self, left: int = MOST_OUTPUTS) -> None:
        self.left = left
        self._most_shown: int | None = None
        self._parts: list[list[str] | OutputImage] = []
        self._made: list[dict[str, Any]] = []
        self._line_is_open = False

    def add(self, event: OutputText | OutputImage) -> None:
        """Append output. Values and tracebacks stand on lines of their own."""
        if isinstance(event, OutputImage):
            self._parts.append(event)
            self._spend(len(event.data) * 4 // 3)
            return
        text = _SURROGATES.sub(_escape, event.text)
        if not text:
            return
        is_whole = event.stream in ("result", "error")
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, list):
            last = []
            self._parts.append(last)
        elif not last[-1].endswith("\n") and (is_whole or self._line_is_open):
            last.append("\n")
        last.append(text)
        self._line_is_open = is_whole
        self._spend(_size_in_json(text))

    def _spend(self, size: int) -> None:
        """Count a size for the last part. No part is shown from the one on that is too large."""
        self.left -= size
        if self.left < 0 and self._most_shown is None:
            self._most_shown = len(self._parts) - 1

    def outputs(self) -> list[dict[str, Any]]:
        """The API's `outputs`: logs, and images as data URLs. A note replaces what is too much."""
        shown, last = self._parts[: self._most_shown], len(self._parts) - 1
        # Reports of a running cell ask for all outputs, and only the last part can still grow.
        self._made += map(_api_output, shown[len(self._made) : last])
        note = [] if self._most_shown is None else [{"type": "logs", "logs": LEFT_OUT}]
        return [*self._made, *map(_api_output, shown[last:]), *note]

    def text(self, note: str = "", most: int = MOST_TEXT) -> str:
        """The output as the model reads it, with `note` on a line of its own at its end.

        most: bytes of output. The empty output is a short note.
        """
        lines = [
            "".join(part) if isinstance(part, list) else f"[image: {part.media_type}]"
            for part in self._parts
        ]
        output = cut_middle("\n".join(line.removesuffix("\n") for line in lines), most)
        return "\n".join(filter(None, (output, note))) or NO_OUTPUT


def cut_middle(text: str, most: int) -> str:
    """The beginning and the end of a text of more than `most` bytes, with a note between them."""
    if len(text) <= most // 4:
        return text
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    head = encoded[: most // 2].decode("utf-8", "ignore")
    tail = encoded[-(most // 2) :].decode("utf-8", "ignore")
    left_out = len(encoded) - most
    return f"{head}\n[… {left_out} bytes of output are left out here …]\n{tail}"


def _size_in_json(text: str) -> int:
    content = text.encode()
    return len(content) + 5 * (len(content) - len(content.translate(None, _LONG_ESCAPES)))


def _escape(match: re.Match[str]) -> str:
    """A surrogate as an escape: one that stands for a byte that is no UTF-8 as that byte."""
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _api_output(part: list[str] | OutputImage) -> dict[str, Any]:
    if isinstance(part, list):
        return {"type": "logs", "logs": "".join(part)}
    return {"type": "image", "url": _data_url(part)}


def _data_url(image: OutputImage) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
