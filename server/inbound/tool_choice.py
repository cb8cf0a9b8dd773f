"""Reads `tool_choice` of either API: which tools the model may call, and whether it must.

Source: https://platform.openai.com/docs/guides/function-calling#tool-choice
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from server.inbound.tools import Tools, shortened
from server.schemas.fields import (
    array,
    declaration,
    invalid,
    label,
    mapping,
    optional_string,
    required,
    string,
)
from server.schemas.tools import Mode

_MODES = get_args(Mode)
_NAMED = ("function", "custom")
_WEB_SEARCH = "web_search"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request.

    mode: `none` forbids calls, `required` requires at least one.
    allowed: the recipients that may be called, None for all that are declared.
    echo: the choice in the form of Responses, without tools that are not served.
    param: the request's field that holds the choice.
    """

    mode: Mode = "auto"
    allowed: frozenset[str] | None = None
    echo: str | dict[str, Any] = field(default="auto", compare=False)
    param: str = field(default="tool_choice", compare=False)


@dataclass(frozen=True, slots=True)
class _Names:
    """The recipients that a choice can name.

    client: those of the client's tools, by kind, namespace and name. hosted: those of hosted tools,
    by the family of their type. servers: those of MCP servers, by their label; of each by the own
    name of a tool, and by None those of all its tools. unlisted: why MCP servers did not list their
    tools, by label. unserved: the families of the tools that this server cannot run.
    """

    client: Mapping[tuple[str, str | None, str], str]
    hosted: Mapping[str, frozenset[str]]
    servers: Mapping[Any, Mapping[str | None, frozenset[str]]]
    unlisted: Mapping[Any, str]
    unserved: frozenset[str]


def read_tool_choice(value: Any, tools: Tools, param: str = "tool_choice") -> ToolChoice:
    """Read a tool choice, flat as in Responses or nested as in Chat; null is auto.

    Raises InvalidRequest if it names a tool that the request does not have, or requires a call
    where no tool can be called.
    """
    declaration(value, param)
    choice = replace(_read(value, tools, param), param=param)
    if choice.mode == "required" and not tools.can_be_called:
        none = "a tool call is required, but there is no tool that can be called"
        raise invalid(param, "; ".join([none, *_unlisted(tools).values()]))
    return choice


def _read(value: Any, tools: Tools, param: str) -> ToolChoice:
    if value is None:
        return ToolChoice()
    if value in _MODES:
        return ToolChoice(value, echo=value)
    if not isinstance(value, dict):
        raise invalid(param, "expected 'none', 'auto', 'required' or an object")
    kind = required(value, "type", param, string)
    if kind == "allowed_tools":
        return _allowed(value, tools, param)
    names = _names(tools)
    named, echo = _tool(value, kind, names, param)
    if named:
        return ToolChoice("required", named, echo)
    if kind == "mcp" and names.servers:
        raise invalid(param, names.unlisted[value["server_label"]])
    problem = f"'{shortened(kind)}' is not a tool that this server can call"
    if _family(shortened(kind)) not in names.unserved:
        problem = _not_there(kind)
    raise invalid(f"{param}.type", problem)


def _not_there(kind: str) -> str:
    return f"the request has no tool of type '{shortened(kind)}'"


def _allowed(value: dict[str, Any], tools: Tools, param: str) -> ToolChoice:
    if "allowed_tools" in value:
        param = f"{param}.allowed_tools"
        value = mapping(value["allowed_tools"], param)
    mode = value.get("mode", "auto")
    if mode not in _MODES:
        raise invalid(f"{param}.mode", "expected 'none', 'auto' or 'required'")
    allowed: set[str] = set()
    echoes: list[dict[str, Any]] = []
    names = _names(tools)
    for index, item in enumerate(required(value, "tools", param, array)):
        where = f"{param}.tools.{index}"
        kind = required(mapping(item, where), "type", where, string)
        named, echo = _tool(item, kind, names, where)
        if named:
            allowed |= named
            echoes.append(echo)
        elif kind == "mcp" and names.servers:
            continue  # The answer goes on without the tools of a server that did not list them.
        elif _family(shortened(kind)) not in names.unserved:
            raise invalid(f"{where}.type", _not_there(kind))
    if mode == "required" and not allowed:
        none = "a tool call is required, but no tool is allowed"
        raise invalid(f"{param}.tools", "; ".join([none, *names.unlisted.values()]))
    return ToolChoice(
        mode, frozenset(allowed), {"type": "allowed_tools", "mode": mode, "tools": echoes}
    )


def _tool(
    value: dict[str, Any], kind: str, names: _Names, param: str
) -> tuple[frozenset[str], dict[str, Any]]:
    """The recipients of the tool that an entry names, and its echo.

    There are no recipients if it names a hosted tool that the request does not have, or an MCP
    server that did not list its tools.
    """
    if kind in _NAMED:
        return _named(value, kind, names, param)
    known = ("type", "server_label", "name")
    echo: dict[str, Any] = {name: value[name] for name in known if name in value}
    if kind == "mcp" and names.servers:
        return _mcp(value, names, param), echo
    return names.hosted.get(_family(kind), frozenset()), echo


def _names(tools: Tools) -> _Names:
    """The names, which are collected once for all entries of a choice: it may have thousands."""
    hosted: dict[str, frozenset[str]] = {}
    servers: dict[Any, dict[str | None, frozenset[str]]] = {}
    for declared in (tool.declaration for tool in tools.hosted):
        calls = frozenset(call.recipient for call in declared.calls)
        if declared.type == "mcp":
            own_name = {to: declared.call_fields.get(to, {}).get("name") for to in calls}
            one_each = {own_name[to]: frozenset({to}) for to in calls}
            servers[declared.fields.get("server_label")] = {**one_each, None: calls}
        else:
            family = _family(declared.type)
            hosted[family] = hosted.get(family, frozenset()) | calls
    unserved = frozenset(map(_family, tools.unserved_kinds))
    return _Names(_client_names(tools), hosted, servers, _unlisted(tools), unserved)


def _unlisted(tools: Tools) -> dict[Any, str]:
    """By their labels, why MCP servers did not list their tools."""
    return {
        item["server_label"]: f"the MCP server '{item['server_label']}' did not list its tools:"
        f" {item['error'].removesuffix('.')}"
        for tool in tools.hosted
        for item in tool.declaration.opening
        if item.get("error")
    }


def _client_names(tools: Tools) -> dict[tuple[str, str | None, str], str]:
    names: dict[tuple[str, str | None, str], str] = {}
    for tool in tools.served:
        declared = tool.declared
        # Clients name custom tools as functions, too.
        for kind in ("function", declared.kind):
            # Chat has no namespaces: there, a call comes back with the full name.
            names[kind, None, tool.function.name] = declared.recipient
            names[kind, declared.namespace, declared.name] = declared.recipient
    return names


def _named(
    value: dict[str, Any], kind: str, names: _Names, param: str
) -> tuple[frozenset[str], dict[str, Any]]:
    if kind in value:
        param = f"{param}.{kind}"
        value = mapping(value[kind], param)
    name = required(value, "name", param, label)
    namespace = optional_string(value.get("namespace"), f"{param}.namespace")
    to = names.client.get((kind, namespace, name))
    if to is None:
        raise invalid(f"{param}.name", f"the request has no {kind} tool named '{name}'")
    echo = {"type": kind, "name": name}
    return frozenset({to}), echo if namespace is None else echo | {"namespace": namespace}


def _family(kind: str) -> str:
    """The name that all versions of a kind of tools share: `web_search` of all web searches."""
    return _WEB_SEARCH if kind.startswith(_WEB_SEARCH) else kind


def _mcp(value: dict[str, Any], names: _Names, param: str) -> frozenset[str]:
    """Raises InvalidRequest for a server that the request does not have, or without such a tool."""
    server_label = required(value, "server_label", param, label)
    server = names.servers.get(server_label)
    name = optional_string(value.get("name"), f"{param}.name")
    if server is None:
        raise invalid(f"{param}.server_label", "the request has no such MCP server")
    calls = server.get(name, frozenset())
    if not calls and server_label not in names.unlisted:
        problem = "the MCP server has no tools" if name is None else "it has no such tool"
        raise invalid(param if name is None else f"{param}.name", problem)
    return calls
