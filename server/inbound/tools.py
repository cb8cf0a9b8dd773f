"""Reads a request's tools, of either API: their declarations and the names of their calls.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools

Hosted tools were opened before (`server.inbound.hosted`); here their declarations join those of the
client's tools. Tools of kinds that this server cannot run are left out. They are logged and named
in the answer, and are never an error.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harmony.grammar import CallableTool
from harmony.messages import FunctionTool, ToolNamespace
from harmony.tools import FUNCTIONS, about_all
from server.generation.plan import DeclaredTool
from server.replay.tool_names import recipient
from server.schemas.fields import (
    array,
    declaration,
    invalid,
    mapping,
    optional_boolean,
    optional_mapping,
    optional_string,
    required,
    string,
)
from server.schemas.limits import MAX_LISTED, MAX_TOOLS
from server.tools.base import ToolDeclaration

logger = logging.getLogger(__name__)

# OpenAI allows no dots and 64 characters. The Model Context Protocol allows dots and 128.
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_MAX_KIND = 64


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the client runs.

    strict: as in the request, None where it is absent. param: the request's field that holds the
    tool. input_grammar: a custom tool's `{"syntax": "lark" | "regex", "definition": …}`.
    """

    declared: DeclaredTool
    function: FunctionTool
    strict: bool | None
    param: str
    input_grammar: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OpenedTool:
    """A hosted tool that the request names. param: the request's field that names it."""

    declaration: ToolDeclaration
    param: str


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request.

    served: the client's tools that can be called, in order. unserved_kinds: the kinds of tools that
    this server cannot run. param: the request's field with the tools. hosted: the hosted tools, in
    order.
    """

    served: tuple[Tool, ...] = ()
    unserved_kinds: tuple[str, ...] = ()
    param: str = "tools"
    hosted: tuple[OpenedTool, ...] = ()

    @property
    def can_be_called(self) -> bool:
        """Whether there is anything that the model may call."""
        return bool(self.served or self.hosted_calls)

    @property
    def hosted_calls(self) -> tuple[CallableTool, ...]:
        """What the model may call of the hosted tools."""
        return tuple(call for tool in self.hosted for call in tool.declaration.calls)

    @property
    def enabled(self) -> Mapping[str, str]:
        """The types of the hosted tools' items, with the recipient of code, "" for other tools."""
        return {
            tool.declaration.item: next(
                (call.recipient for call in tool.declaration.calls if call.takes_code), ""
            )
            for tool in self.hosted
        }

    @property
    def declared(self) -> tuple[DeclaredTool, ...]:
        """The declarations for a plan."""
        hosted = declared_calls(tool.declaration for tool in self.hosted)
        return (*(tool.declared for tool in self.served), *hosted)

    @property
    def namespaces(self) -> tuple[ToolNamespace, ...]:
        """The declarations for the developer message: one namespace, or none without functions."""
        hosted = (function for tool in self.hosted for function in tool.declaration.functions)
        functions = (*(tool.function for tool in self.served), *hosted)
        return (ToolNamespace(FUNCTIONS, tools=functions),) if functions else ()

    @property
    def built_in(self) -> tuple[ToolNamespace, ...]:
        """The declarations for the system message."""
        namespaces = (tool.declaration.namespace for tool in self.hosted)
        return tuple(namespace for namespace in namespaces if namespace is not None)


def declared_calls(declarations: Iterable[ToolDeclaration]) -> tuple[DeclaredTool, ...]:
    """The declarations of hosted tools for a plan: one for each recipient."""
    return tuple(
        DeclaredTool(
            call.recipient,
            call.recipient.removeprefix(f"{FUNCTIONS}."),
            "hosted",
            hosted=declaration,
        )
        for declaration in declarations
        for call in declaration.calls
    )


def read_tools(value: Any, param: str = "tools", hosted: Sequence[OpenedTool] = ()) -> Tools:
    """Read `tools`, flat as in Responses or nested as in Chat; null is none.

    hosted: the hosted tools that the request names, in `tools` or in other fields.

    Raises InvalidRequest naming the tool's field.
    """
    if value is None:
        return _checked(Tools(hosted=tuple(hosted)))
    declaration(value, param)
    opened = {tool.param for tool in hosted}
    served: list[Tool] = []
    unserved_kinds: dict[str, None] = {}
    for index, item in enumerate(array(value, param, MAX_TOOLS)):
        where = f"{param}.{index}"
        kind = required(mapping(item, where), "type", where, string)
        if where in opened:
            continue
        if kind in ("function", "custom"):
            served.append(_read_tool(item, kind, where))
        elif kind == "namespace":
            served.extend(_read_namespace(item, where))
        else:
            unserved_kinds[shortened(kind)] = None
    if len(served) > MAX_TOOLS:
        raise invalid(param, f"expected at most {MAX_TOOLS} tools, those in namespaces included")
    if len(unserved_kinds) > MAX_LISTED:
        raise invalid(param, f"expected tools of at most {MAX_LISTED} kinds")
    if unserved_kinds:
        logger.info("tools of these kinds are not served: %r", [*unserved_kinds])
    return _checked(Tools(tuple(served), tuple(unserved_kinds), param, tuple(hosted)))


def shortened(kind: str) -> str:
    """The name of a kind of tools, at most 64 characters long, for logs and answers."""
    return kind[:_MAX_KIND]


def _read_namespace(item: dict[str, Any], where: str) -> list[Tool]:
    name = required(item, "name", where, _name)
    description = optional_string(item.get("description"), f"{where}.description")
    tools: list[Tool] = []
    for index, nested in enumerate(required(item, "tools", where, array)):
        inside = f"{where}.tools.{index}"
        kind = required(mapping(nested, inside), "type", inside, string)
        if kind not in ("function", "custom"):
            raise invalid(f"{inside}.type", "a namespace holds function and custom tools")
        tools.append(_read_tool(nested, kind, inside, namespace=name))
    prefix = recipient("", name).removeprefix(f"{FUNCTIONS}.")
    functions = about_all([tool.function for tool in tools], prefix, description)
    return [
        replace(tool, function=function) for tool, function in zip(tools, functions, strict=True)
    ]


def _read_tool(item: dict[str, Any], kind: str, where: str, namespace: str | None = None) -> Tool:
    if kind in item:
        where = f"{where}.{kind}"
        item = mapping(item[kind], where)
    name = required(item, "name", where, _name)
    description = optional_string(item.get("description"), f"{where}.description")
    to = recipient(name, namespace)
    full_name = to.removeprefix(f"{FUNCTIONS}.")
    if kind == "custom":
        grammar = _input_grammar(item.get("format"), f"{where}.format")
        function = FunctionTool(full_name, _with_grammar(description, grammar), freeform=True)
        declared = DeclaredTool(to, name, "custom", namespace)
        return Tool(declared, function, None, where, grammar)
    # An empty schema is meant as an empty list of parameters, not as any arguments.
    parameters = optional_mapping(item.get("parameters"), f"{where}.parameters") or None
    strict = optional_boolean(item.get("strict"), f"{where}.strict")
    function = FunctionTool(full_name, description, parameters)
    return Tool(DeclaredTool(to, name, "function", namespace), function, strict, where)


def _name(value: Any, param: str) -> str:
    name = string(value, param)
    if not _NAME.fullmatch(name):
        raise invalid(param, "expected 1 to 128 letters, digits, underscores, dots and hyphens")
    return name


def _input_grammar(value: Any, param: str) -> dict[str, Any] | None:
    form = optional_mapping(value, param) or {"type": "text"}
    kind = required(form, "type", param, string)
    if kind == "text":
        return None
    if kind != "grammar":
        raise invalid(f"{param}.type", "expected 'text' or 'grammar'")
    if "grammar" in form:
        param = f"{param}.grammar"
        form = mapping(form["grammar"], param)
    syntax = required(form, "syntax", param, string)
    if syntax not in ("lark", "regex"):
        raise invalid(f"{param}.syntax", "expected 'lark' or 'regex'")
    definition = required(form, "definition", param, string)
    return {"syntax": syntax, "definition": definition}


def _with_grammar(description: str | None, grammar: dict[str, Any] | None) -> str | None:
    if grammar is None:
        return description
    rule = f"The input must match this {grammar['syntax']} grammar:\n{grammar['definition']}"
    return f"{description}\n\n{rule}" if description else rule


def _checked(tools: Tools) -> Tools:
    """The tools themselves. Raises InvalidRequest if two have the same recipient."""
    seen: set[str] = set()
    names = [(f"{tool.param}.name", tool.declared) for tool in tools.served]
    for tool in tools.hosted:
        names += [(tool.param, call) for call in declared_calls([tool.declaration])]
    for param, declared in names:
        if declared.recipient in seen:
            raise invalid(param, f"two tools are named '{declared.name}'", "duplicate_tool")
        seen.add(declared.recipient)
    return tools
