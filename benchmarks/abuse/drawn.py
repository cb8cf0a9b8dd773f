"""Bodies drawn from the requests' schemas: in each, one value is as large as a body may be.

The values are those of every field that a schema names, and of every array, object, string and
number in an example that has all kinds of items, messages, parts, tools and formats.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from server.schemas.chat import CreateChatCompletion, UpdateChatCompletion
from server.schemas.conversations import CreateConversation, CreateItems, UpdateConversation
from server.schemas.legacy_completions import CreateCompletion
from server.schemas.responses import CompactResponse, CreateResponse
from server.schemas.tokens import Detokenize, Tokenize

MODEL = "scripted"
_MARK = "\N{LARGE CIRCLE}here"

_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "description": "text", "enum": ["x", "y"], "pattern": "[xy]"},
        "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/c"}]},
        "d": {"type": "array", "items": {"const": 1.5}},
    },
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"c": {"type": "null"}},
}
_FUNCTION = {"name": "f", "description": "does it", "parameters": _SCHEMA, "strict": False}
_CUSTOM = {"type": "grammar", "syntax": "regex", "definition": "[ab]+"}
_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":"x"}'}
_ITEMS = [
    {"type": "message", "role": "user", "id": "msg_1", "content": "Hello"},
    {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    {
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "AAAA"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    },
    {
        "role": "assistant",
        "phase": "commentary",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Well.", "annotations": [], "logprobs": []}],
    },
    {**_CALL, "namespace": "n", "status": "completed"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "text", "text": "1"}]},
    {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "ab"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    {"type": "local_shell_call", "call_id": "c3", "action": {"command": ["ls"], "env": {"A": "b"}}},
    {"type": "local_shell_call_output", "call_id": "c3", "output": "files"},
    {"type": "shell_call", "call_id": "c4", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c4",
        "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 1}}],
    },
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "f",
        "server_label": "s",
        "arguments": "{}",
        "output": "ok",
        "error": None,
    },
    {"type": "computer_call", "call_id": "c5", "actions": [{"type": "click", "x": 1, "y": 2}]},
    {"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}},
]
_TOOLS = [
    {"type": "function", **_FUNCTION},
    {"type": "custom", "name": "g", "description": "writes", "format": _CUSTOM},
    {"type": "namespace", "name": "n", "tools": [{"type": "function", **_FUNCTION}]},
    {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
]
_MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "name": "anna",
        "content": [
            {"type": "text", "text": "Hello"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}},
        ],
    },
    {
        "role": "assistant",
        "content": "Well.",
        "reasoning": "Hm.",
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "format": "unknown"}],
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "1"},
    {"role": "user", "content": "And now?"},
]
_SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"1": 1.0},
    "seed": 1,
    "stop": ["stop"],
    "top_k": 5,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "priority": 1,
}
_RESPONSE = {
    "model": MODEL,
    "input": _ITEMS,
    "instructions": "Be brief.",
    "tools": _TOOLS,
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "f"}],
    },
    "text": {"format": {"type": "json_schema", "name": "s", "schema": _SCHEMA}},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["message.output_text.logprobs"],
    "metadata": {"a": "b"},
    "max_output_tokens": 16,
    "stream_options": {"include_obfuscation": False},
    "client_metadata": {"a": "b"},
    **_SAMPLING,
}
_CHAT = {
    "model": MODEL,
    "messages": _MESSAGES,
    "tools": [
        {"type": "function", "function": _FUNCTION},
        {
            "type": "custom",
            "custom": {"name": "g", "format": {"type": "grammar", "grammar": _CUSTOM}},
        },
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA}},
    "reasoning": {"effort": "low", "exclude": False},
    "stream_options": {"include_usage": True},
    "metadata": {"a": "b"},
    "modalities": ["text"],
    "prediction": {"type": "content", "content": "a"},
    "max_tokens": 16,
    "store": True,
    **_SAMPLING,
}
_COMPLETION = {"model": MODEL, "prompt": ["a", [1, 2, 3]], "max_tokens": 5, **_SAMPLING}

ENDPOINTS: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "/v1/responses": (CreateResponse, _RESPONSE),
    "/v1/responses/input_tokens": (CreateResponse, _RESPONSE),
    "/v1/responses/render": (CreateResponse, _RESPONSE),
    "/v1/responses/compact": (CompactResponse, {"model": MODEL, "input": _ITEMS}),
    "/v1/chat/completions": (CreateChatCompletion, _CHAT),
    "/v1/chat/completions/render": (CreateChatCompletion, _CHAT),
    "/v1/chat/completions/chatcmpl_none": (UpdateChatCompletion, {"metadata": {"a": "b"}}),
    "/v1/completions": (CreateCompletion, _COMPLETION),
    "/v1/conversations": (CreateConversation, {"items": _ITEMS[:15], "metadata": {"a": "b"}}),
    "/v1/conversations/conv_none": (UpdateConversation, {"metadata": {"a": "b"}}),
    "/v1/conversations/conv_none/items": (CreateItems, {"items": _ITEMS[:2]}),
    "/tokenize": (Tokenize, {"prompt": "a", "return_token_strs": True}),
    "/detokenize": (Detokenize, {"tokens": [1, 2, 3]}),
}

_REPEATED: dict[str, tuple[bytes, bytes, bytes, bytes]] = {
    "ascii": (b'"', b"word ", b"", b'"'),
    "one word": (b'"', b"x", b"", b'"'),
    "punctuation": (b'"', b"=", b"", b'"'),
    "wide": (b'"', "é漢 ".encode(), b"", b'"'),
    "escapes": (b'"', rb"\n", b"", b'"'),
    "surrogates": (b'"', rb"\ud800", b"", b'"'),
    "digits": (b"", b"9", b"", b""),
    "numbers": (b"[", b"1", b",", b"]"),
    "ids": (b"[", b"199999", b",", b"]"),
    "strings": (b"[", b'"some text"', b",", b"]"),
    "empty objects": (b"[", b"{}", b",", b"]"),
    "empty arrays": (b"[", b"[]", b",", b"]"),
    "equal names": (b"{", b'"a":1', b",", b"}"),
    "depth": (b"", b"[", b"", b""),
}
_NUMBERED = {
    "names": b'"n#":1',
    "names of texts": b'"n#":"t#"',
    "names of objects": b'"n#":{"type":"string"}',
}
_COPIES = "copies"
FORMS = (*_REPEATED, *_NUMBERED, _COPIES)


@dataclass(frozen=True)
class Drawn:
    """A request in which the value at `place` is large, in the form named."""

    path: str
    place: tuple[str | int, ...]
    form: str

    def __str__(self) -> str:
        return f"{self.path} {'.'.join(map(str, self.place))}: {self.form}"

    def body(self, size: int) -> bytes:
        """The JSON, of some `size` bytes."""
        example = ENDPOINTS[self.path][1]
        marked = json.dumps(_with(example, self.place), ensure_ascii=False).encode()
        before, _, after = marked.partition(f'"{_MARK}"'.encode())
        return before + self._large(size) + after

    def _large(self, size: int) -> bytes:
        if self.form in _NUMBERED:
            one = _NUMBERED[self.form]
            count = size // (len(one) + 6 * one.count(b"#"))
            return b"{" + b",".join(one.replace(b"#", b"%d" % n) for n in range(count)) + b"}"
        if self.form == _COPIES:
            one = json.dumps(_at(ENDPOINTS[self.path][1], self.place)).encode()
            return b"[" + (one + b",") * (size // (len(one) + 1)) + one + b"]"
        start, one, comma, end = _REPEATED[self.form]
        return start + (one + comma) * (size // len(one + comma)) + one + end


def all_places(path: str) -> list[tuple[str | int, ...]]:
    """Each value of a request: the schema's fields, and what the example has below them."""
    schema, example = ENDPOINTS[path]
    return list(dict.fromkeys([*_fields(schema), *_places(example)]))


def draw(source: Random) -> Drawn:
    """One request."""
    path = source.choice(list(ENDPOINTS))
    return Drawn(path, source.choice(all_places(path)), source.choice(FORMS))


def _fields(schema: type[BaseModel]) -> Iterator[tuple[str | int, ...]]:
    for name, field in schema.model_fields.items():
        yield (name,)
        for inner in _models(field.annotation):
            yield from ((name, *place) for place in _fields(inner))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _models(each)


def _places(value: Any) -> Iterator[tuple[str | int, ...]]:
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for name, inner in members:
        yield (name,)
        yield from ((name, *place) for place in _places(inner))


def _at(value: Any, place: tuple[str | int, ...]) -> Any:
    for name in place:
        value = value.get(name) if isinstance(value, dict) else value[name]
        if value is None:
            return None
    return value


def _with(value: Any, place: tuple[str | int, ...]) -> Any:
    """A copy that has the mark at `place`."""
    if not place:
        return _MARK
    name, *rest = place
    if isinstance(value, list):
        assert isinstance(name, int)
        return [*value[:name], _with(value[name], tuple(rest)), *value[name + 1 :]]
    return {**(value or {}), str(name): _with((value or {}).get(name), tuple(rest))}
