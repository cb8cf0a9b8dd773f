"""Random requests with tools, tool choices and schemas, and the checks of their answers."""

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
BUDGET = 16
ENOUGH_TOKENS = 512
MODEL = "closing"

Check = Callable[[str], None]
"""Raises an error if a text is not what the request requires."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A request and the checks of its answer.

    path: the endpoint.
    body: the request's body.
    callable: the check of the arguments of each tool that may be called, by recipient.
    strict: the recipients whose arguments follow a strict schema.
    must_call: whether the answer has to end with a call.
    answer: the check of the final text; None without one.
    budget: the largest number of reasoning tokens.
    """

    path: str
    body: dict[str, Any]
    callable: Mapping[str, Check]
    strict: frozenset[str]
    must_call: bool
    answer: Check | None
    budget: int


def draw(source: random.Random) -> Drawn:
    """One request, at temperature 2."""
    path = source.choice([CHAT, RESPONSES])
    chat = path == CHAT
    tools = [_tool(source, f"tool_{number}", chat) for number in range(source.randrange(4))]
    choice, names, must_call = _choice(source, [tool.name for tool in tools], chat)
    schema = _object(source, 2) if source.random() < 0.5 else None
    budget = source.choice([0, BUDGET])
    cut = source.random() < 0.04
    body = {
        "model": MODEL,
        "temperature": 2,
        "store": False,
        "max_tokens" if chat else "max_output_tokens": source.randint(1, 24)
        if cut
        else ENOUGH_TOKENS,
        "reasoning": {"max_tokens": budget} if budget else {"effort": "none"},
        **_prompt(chat),
    }
    if tools:
        body |= {"tools": [tool.wire for tool in tools], "tool_choice": choice}
    if schema is not None:
        body |= _format(schema, chat)
    return Drawn(
        path,
        body,
        {f"functions.{tool.name}": tool.check for tool in tools if tool.name in names},
        frozenset(f"functions.{tool.name}" for tool in tools if tool.strict),
        must_call,
        None if schema is None else _valid(schema),
        budget,
    )


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    wire: dict[str, Any]
    check: Check
    strict: bool = False


def _tool(source: random.Random, name: str, chat: bool) -> _Tool:
    if source.random() < 0.2:
        pattern = source.choice(["[a-z]{1,8}", "(yes|no)( (yes|no)){0,2}", r"[0-9]{1,3}\.[0-9]"])
        definition = {"syntax": "regex", "definition": pattern}
        form = {"type": "grammar", **({"grammar": definition} if chat else definition)}
        return _Tool(name, _wire("custom", {"name": name, "format": form}, chat), _matches(pattern))
    schema = _object(source, 2)
    strict = source.choice([True, True, False, None])
    function = {"name": name, "parameters": schema, "strict": strict}
    # The default of `strict` is true in the Responses API.
    is_enforced = strict or (strict is None and not chat)
    check = _valid(schema if is_enforced else {"type": "object"})
    return _Tool(name, _wire("function", function, chat), check, bool(strict))


def _wire(kind: str, inside: dict[str, Any], chat: bool) -> dict[str, Any]:
    return {"type": kind, kind: inside} if chat else {"type": kind, **inside}


def _choice(source: random.Random, names: list[str], chat: bool) -> tuple[Any, list[str], bool]:
    """The request's `tool_choice`, the names that may be called, and whether a call is required."""
    if not names:
        return None, [], False
    kind = source.choice(["auto", "none", "required", "named", "allowed"])
    if kind == "named":
        # As a function, even for a custom tool: clients do so, and names are unique.
        name = source.choice(names)
        inside = {"name": name}
        named = {"type": "function", "function": inside} if chat else {"type": "function", **inside}
        return named, [name], True
    if kind == "allowed":
        some = source.sample(names, source.randint(1, len(names)))
        mode = source.choice(["auto", "required"])
        tools = [_wire("function", {"name": name}, chat) for name in some]
        allowed = {"mode": mode, "tools": tools}
        wire = {"allowed_tools": allowed} if chat else allowed
        return {"type": "allowed_tools", **wire}, some, mode == "required"
    return kind, [] if kind == "none" else names, kind == "required"


def _prompt(chat: bool) -> dict[str, Any]:
    text = "Go ahead."
    return {"messages": [{"role": "user", "content": text}]} if chat else {"input": text}


def _format(schema: dict[str, Any], chat: bool) -> dict[str, Any]:
    inside = {"name": "answer", "schema": schema, "strict": True}
    if chat:
        return {"response_format": {"type": "json_schema", "json_schema": inside}}
    return {"text": {"format": {"type": "json_schema", **inside}}}


def _object(source: random.Random, depth: int) -> dict[str, Any]:
    properties = {f"p{number}": _value(source, depth) for number in range(source.randrange(4))}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _value(source: random.Random, depth: int) -> dict[str, Any]:
    kinds = ["text", "word", "integer", "number", "boolean", "enum", "maybe"]
    kind = source.choice([*kinds, *(["object", "array", "choice"] if depth else [])])
    match kind:
        case "text":
            return {"type": "string", "maxLength": source.randint(0, 12)}
        case "word":
            return {"type": "string", "pattern": "^[a-z]{1,6}$"}
        case "integer":
            low = source.randint(-100, 100)
            return {"type": "integer", "minimum": low, "maximum": low + source.randint(0, 200)}
        case "number":
            return {"type": "number", "minimum": 0, "maximum": source.randint(1, 9)}
        case "boolean":
            return {"type": "boolean"}
        case "enum":
            return {"enum": source.sample(["a", "b c", 'd"e', 1, 2.5, None, True], 3)}
        case "maybe":
            return {"type": ["string", "null"], "maxLength": 5}
        case "object":
            return _object(source, depth - 1)
        case "array":
            items = _value(source, depth - 1)
            return {"type": "array", "items": items, "maxItems": source.randint(0, 3)}
        case _:
            return {"anyOf": [_value(source, depth - 1), {"type": "null"}]}


def _valid(schema: dict[str, Any]) -> Check:
    validator = jsonschema.Draft202012Validator(schema)
    return lambda text: validator.validate(json.loads(text))


def _matches(pattern: str) -> Check:
    def check(text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} does not match {pattern}")

    return check
