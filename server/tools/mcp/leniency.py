"""Mends results of servers that the SDK would refuse as a whole. It needs the extra `mcp`.

For one tool that is not quite as the protocol demands, the SDK takes none of a list. Many servers
have such: generators of schemas write no `type` for a union, and `{}` or nothing for no arguments,
and PHP writes no properties as an empty array. So it is with one part of a call's result: an
audience that the protocol does not have, content of an own kind, a link without a name, or a list
as structured content. And what a server says of itself at first ends the connection where PHP
writes an empty array for an object.
"""

from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ValidationError

from server.tools.mcp.results import UNKNOWN, as_json, says_nothing


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _fits(model: type[BaseModel]) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        try:
            model.model_validate(value)
        except ValidationError:
            return False
        return True

    return fits


# Titles, icons and schemas of results are not used: what is wrong with them costs nothing.
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "name": _is_text,
    "description": _is_text,
    "inputSchema": _is_object,
    "annotations": _fits(types.ToolAnnotations),
    "execution": _fits(types.ToolExecution),
}
_KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    "$schema": _is_text,
    "properties": _is_object,
    "required": _are_texts,
}


# The latest protocol demands these, and many servers that speak it do not send them. Other ones
# ignore them, as does the client, which keeps lists as long as it wants.
_COMPLETE = {"resultType": "complete"}
_LIST = {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"}
_VERSIONS = ("protocolVersion", "supportedVersions")
_UNNAMED = {"name": "", "version": ""}


def mended(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, as the SDK takes it.

    What a server says of itself, its tools, and the content of a call's result have only the parts
    that are used and that are valid. Tools without a name are left out. A result with only
    structured content has no other.
    """
    if result.get("content") is not None or result.get("structuredContent") is not None:
        return _called(result)
    versions = {name: result[name] for name in _VERSIONS if name in result}
    if versions:
        return {**versions, "capabilities": _capabilities(result), "serverInfo": _UNNAMED}
    if isinstance(tools := result.get("tools"), list):
        kept = (_tool(tool) for tool in tools if isinstance(tool, dict))
        tools = [tool for tool in kept if "name" in tool]
        return {**_without_meta(result), **_LIST, "tools": tools}
    return result


def _without_meta(result: dict[str, Any]) -> dict[str, Any]:
    """What is left without the field for notes, which is not used and often an empty array."""
    return {name: part for name, part in result.items() if name != "_meta"}


def _called(result: dict[str, Any]) -> dict[str, Any]:
    content = result.get("content") or []
    blocks = [_block(block) for block in (content if isinstance(content, list) else [content])]
    # Some servers write null for what is not there.
    there = {name: part for name, part in _without_meta(result).items() if part is not None}
    if not isinstance(there.get("structuredContent", {}), dict):
        # Of all protocols, only the latest permits this.
        structured = there.pop("structuredContent")
        if all(says_nothing(block.get("text", "")) for block in blocks):
            blocks.append({"type": "text", "text": as_json(structured)})
    return {**_COMPLETE, **there, "content": blocks}


def _capabilities(result: dict[str, Any]) -> dict[str, Any]:
    """Of what a server can do, whether it tells of changes: no more is used."""
    match result:
        case {"capabilities": {"tools": {"listChanged": True}}}:
            return {"tools": {"listChanged": True}}
    return {}


def _block(block: Any) -> dict[str, Any]:
    """One part of the content of a call's result."""
    match block:
        case {"type": "text", "text": str(text)} | str(text):
            return {"type": "text", "text": text}
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return {"type": kind, "data": data, "mimeType": _text(block, "mimeType", "unknown")}
        case {"type": "resource_link", "uri": str(uri)}:
            return {"type": "resource_link", "uri": uri, "name": _text(block, "name", uri)}
        case {"type": "resource", "resource": {"text": str(text)} as inner}:
            resource = {"uri": _text(inner, "uri", ""), "text": text}
            return {"type": "resource", "resource": resource}
        case {"type": "resource", "resource": {"blob": str(blob)} as inner}:
            kind = _text(inner, "mimeType", "binary")
            return {"type": "resource", "resource": {"uri": "", "blob": blob, "mimeType": kind}}
        case {"text": str(text)}:
            return {"type": "text", "text": text}
    return {"type": "text", "text": UNKNOWN}


def _text(value: Mapping[str, Any], name: str, default: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else default


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    kept = {name: part for name, part in tool.items() if name in _FIELDS and _FIELDS[name](part)}
    return {**kept, "inputSchema": _schema(kept.get("inputSchema", {}))}


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of arguments, which are an object in any case."""
    mended = {
        name: part
        for name, part in schema.items()
        if name not in _KEYWORDS or _KEYWORDS[name](part)
    }
    if "properties" in mended:
        properties = mended["properties"].items()
        mended["properties"] = {
            name: part if isinstance(part, dict | bool) else {} for name, part in properties
        }
    return {**mended, "type": "object"}
