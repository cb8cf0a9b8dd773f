"""Turns the result of a call into the text that the client and the model get."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import mcp_types as types

from server.tools.base import ToolResult
from server.tools.mcp.failures import Failure
from server.tools.mcp.limits import MAX_OUTPUT
from server.tools.mcp.redaction import Redactor

TRUNCATED = "\n[The rest of the result is left out.]"
NO_OUTPUT = "[The tool returned nothing.]"
UNKNOWN = "[content of an unknown kind left out]"


def read_result(result: types.CallToolResult, redactor: Redactor) -> ToolResult:
    """The result of a call that the server ran. Texts are cleaned of secrets, and truncated."""
    text = truncated(redactor.clean("\n".join(_texts(result))))
    if result.is_error:
        content = [{"type": "text", "text": text}]
        return _failed(text, {"type": "mcp_tool_execution_error", "content": content})
    return ToolResult(text or NO_OUTPUT, fields={"output": text, "error": None})


def failed_result(failure: Failure, redactor: Redactor) -> ToolResult:
    """The result of a call that the server did not run, or did not finish."""
    text = redactor.clean(failure.message)
    return _failed(text, {**failure.fields, "message": text})


def _failed(text: str, error: Mapping[str, Any]) -> ToolResult:
    return ToolResult(f"Error: {text}", failed=True, fields={"output": None, "error": error})


def truncated(text: str) -> str:
    """The text, or its first `MAX_OUTPUT` bytes of UTF-8 with a note."""
    if len(text) * 4 <= MAX_OUTPUT:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_OUTPUT:
        return text
    return data[: MAX_OUTPUT - len(TRUNCATED)].decode("utf-8", "ignore") + TRUNCATED


def _texts(result: types.CallToolResult) -> Iterator[str]:
    texts = [_text(block) for block in result.content]
    if result.structured_content is None or _has_text(result):
        yield from texts
        return
    # Servers repeat structured content as text, for clients that read only text.
    yield from (text for text in texts if text.strip())
    yield as_json(result.structured_content)


def as_json(structured: Any) -> str:
    """Structured content as text. It may have integers of any size, which orjson does not write."""
    return json.dumps(structured, ensure_ascii=False, separators=(",", ":"))


def _has_text(result: types.CallToolResult) -> bool:
    texts = (each.text for each in result.content if isinstance(each, types.TextContent))
    return not all(map(says_nothing, texts))


def says_nothing(text: str) -> bool:
    """Whether a text is blank, or only says that content is left out."""
    return text.strip() in ("", UNKNOWN)


def _text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data, mime_type=kind):
            return _note("image", kind, data)
        case types.AudioContent(data=data, mime_type=kind):
            return _note("audio", kind, data)
        case types.ResourceLink(name=name, uri=uri):
            return f"[resource: {name} at {uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text, uri=uri)):
            return f"[resource: {uri}]\n{text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return _note("resource", blob.mime_type or "binary", blob.blob)
    return UNKNOWN


def _note(what: str, kind: str, data: str) -> str:
    return f"[{what} of type {kind}, {len(data) * 3 // 4:,} bytes, left out]"
