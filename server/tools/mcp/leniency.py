"""Mends results of servers that the SDK would refuse as a whole. It needs the extra `mcp`.

For one tool that is not quite as the protocol demands, the SDK takes none of a list. Many servers
have such: generators of schemas write no `type` for a union, and `{}` or nothing for no arguments,
and PHP writes no properties as an empty array.
"""

from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ValidationError


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


def mended(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, as the SDK takes it.

    Tools have only the fields that are used and that are valid. Those without a name are left out.
    A result of a call with only structured content has no other.
    """
    tools = result.get("tools")
    if isinstance(tools, list):
        kept = (_tool(tool) for tool in tools if isinstance(tool, dict))
        return {**result, "tools": [tool for tool in kept if "name" in tool]}
    if result.get("structuredContent") is not None and result.get("content") is None:
        return {**result, "content": []}
    return result


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
