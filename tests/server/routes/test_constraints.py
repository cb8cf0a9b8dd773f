"""Constraints of requests over HTTP: the grammar that the engine gets, or a 400."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import httpx
import pytest

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import DeadEnd, InvalidGrammar
from harmony.grammar import (
    AnyObject,
    CallableTool,
    GrammarSpec,
    SchemaJson,
    answer_grammar,
    final_headers,
    turn_grammar,
)
from harmony.vocab import CALL, STOP_TOKENS
from tests.server.routes.conftest import App, OpenApp, RecordingBackend

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
APIS = pytest.mark.parametrize("path", [CHAT, RESPONSES])
ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
NAMES = ("f", "g")


def tool(path: str, name: str, parameters: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    inside = {"name": name, "parameters": parameters, "strict": True, **more}
    return (
        {"type": "function", "function": inside}
        if path == CHAT
        else {
            "type": "function",
            **inside,
        }
    )


def custom(path: str, syntax: str, definition: str) -> dict[str, Any]:
    grammar = {"syntax": syntax, "definition": definition}
    form = {"type": "grammar", **({"grammar": grammar} if path == CHAT else grammar)}
    inside = {"name": "sql", "format": form}
    return {"type": "custom", "custom": inside} if path == CHAT else {"type": "custom", **inside}


def structured(path: str, schema: Any, **more: Any) -> dict[str, Any]:
    inside = {"name": "n", "schema": schema, **more}
    if path == CHAT:
        return {"response_format": {"type": "json_schema", "json_schema": inside}}
    return {"text": {"format": {"type": "json_schema", **inside}}}


async def ask(app: App, path: str, **more: Any) -> httpx.Response:
    input_fields = (
        {"messages": [{"role": "user", "content": "Hi"}]} if path == CHAT else {"input": "Hi"}
    )
    return await app.post(path, {"model": "scripted", **input_fields, **more})


def named(path: str, name: str) -> dict[str, Any]:
    return (
        {"type": "function", "function": {"name": name}}
        if path == CHAT
        else {
            "type": "function",
            "name": name,
        }
    )


def allowed(path: str, mode: str) -> dict[str, Any]:
    inside = {"mode": mode, "tools": [named(path, "g")]}
    return {"type": "allowed_tools", **({"allowed_tools": inside} if path == CHAT else inside)}


def calls(*names: str) -> tuple[CallableTool, ...]:
    return tuple(CallableTool(f"functions.{name}", SchemaJson(SCHEMA)) for name in names)


CHOICES = {
    "auto": (lambda path: "auto", GrammarSpec(calls("f", "g"))),
    "none": (lambda path: "none", GrammarSpec()),
    "required": (lambda path: "required", GrammarSpec(calls("f", "g"), call_required=True)),
    "named": (lambda path: named(path, "f"), GrammarSpec(calls("f"), call_required=True)),
    "allowed": (lambda path: allowed(path, "auto"), GrammarSpec(calls("g"))),
    "allowed and required": (
        lambda path: allowed(path, "required"),
        GrammarSpec(calls("g"), call_required=True),
    ),
}


@APIS
@pytest.mark.parametrize(("choice", "spec"), CHOICES.values(), ids=CHOICES)
async def test_the_engine_gets_the_tool_choice_and_the_model_all_tools(
    open_app: OpenApp, path: str, choice: Any, spec: GrammarSpec
) -> None:
    async with open_app(ANSWER) as app:
        tools = [tool(path, name) for name in NAMES]
        answer = await ask(app, path, tools=tools, tool_choice=choice(path))
        assert answer.status_code == 200
        [request] = app.backend.requests
        assert request.grammar == turn_grammar(spec)
        assert request.stop_token_ids == STOP_TOKENS
        assert all(f"type {name} = " in app.prompts[0] for name in NAMES)


@APIS
async def test_effort_none_leaves_calls_open(open_app: OpenApp, path: str) -> None:
    async with open_app(ANSWER) as app:
        await ask(app, path, tools=[tool(path, "f")], reasoning={"effort": "none"})
        [request] = app.backend.requests
        assert request.grammar == turn_grammar(GrammarSpec(calls("f"), reasoning=False))


@APIS
async def test_effort_none_without_tools_gives_the_final_header(
    open_app: OpenApp, path: str
) -> None:
    async with open_app("Hello!<|return|>") as app:
        answer = await ask(app, path, reasoning={"effort": "none"})
        assert answer.status_code == 200
        [request] = app.backend.requests
        header = final_headers()[0]
        assert request.prompt_token_ids[-len(header) :] == header
        assert request.grammar == answer_grammar(GrammarSpec())


@APIS
async def test_a_budget_bounds_the_reasoning_and_usage_shows_it(
    open_app: OpenApp, path: str
) -> None:
    script = "<|channel|>analysis<|message|>One two.<|end|><|start|>assistant" + ANSWER
    async with open_app(script) as app:
        usage = (await ask(app, path, reasoning={"max_tokens": 3})).json()["usage"]
        [request] = app.backend.requests
        assert request.grammar == turn_grammar(GrammarSpec(reasoning_budget=3))
        details = usage.get("completion_tokens_details") or usage["output_tokens_details"]
        assert details["reasoning_tokens"] == 3


@APIS
@pytest.mark.parametrize("budget", [-1, "3", 1.5])
async def test_a_bad_budget_is_named(open_app: OpenApp, path: str, budget: Any) -> None:
    async with open_app(ANSWER) as app:
        answer = await ask(app, path, reasoning={"max_tokens": budget})
        assert (answer.status_code, answer.json()["error"]["param"]) == (
            400,
            "reasoning.max_tokens",
        )


TWO_CALLS = (
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>'
    '<|start|>assistant<|channel|>commentary to=functions.g <|constrain|>json<|message|>{"a":2}'
    "<|call|><|return|>"
)


def called(path: str, answer: Any) -> list[tuple[str, str]]:
    if path == CHAT:
        functions = [call["function"] for call in answer["choices"][0]["message"]["tool_calls"]]
        return [(function["name"], function["arguments"]) for function in functions]
    return [
        (item["name"], item["arguments"])
        for item in answer["output"]
        if item["type"] == "function_call"
    ]


@APIS
async def test_a_call_ends_the_turn(open_app: OpenApp, path: str) -> None:
    async with open_app(TWO_CALLS) as app:
        tools = [tool(path, name) for name in NAMES]
        answer = (await ask(app, path, tools=tools, parallel_tool_calls=True)).json()
        assert called(path, answer) == [("f", '{"a":1}')]


@APIS
async def test_calls_follow_calls_where_the_server_lets_them(open_app: OpenApp, path: str) -> None:
    async with open_app(TWO_CALLS, parallel_calls=True) as app:
        tools = [tool(path, name) for name in NAMES]
        answer = (await ask(app, path, tools=tools)).json()
        assert called(path, answer) == [("f", '{"a":1}'), ("g", '{"a":2}')]
        [request] = app.backend.requests
        assert request.grammar == turn_grammar(GrammarSpec(calls(*NAMES), parallel_calls=True))
        assert request.stop_token_ids == STOP_TOKENS - {CALL}
        one = (await ask(app, path, tools=tools, parallel_tool_calls=False)).json()
        assert called(path, one) == [("f", '{"a":1}')]


LOOP = SCHEMA | {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$ref": "#/$defs/b"}}}


def chain(length: int) -> dict[str, Any]:
    links = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(length)}
    ends = {f"d{length}": {"type": "null"}}
    return SCHEMA | {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": links | ends}


DEEP, DEEP_ENOUGH = chain(9_000), chain(2_000)
BIG = SCHEMA | {"description": "x" * (1 << 20)}
PHP: dict[str, Any] = {"properties": []}
SLOW = {"type": "object", "patternProperties": {f"^a{n}b": {} for n in range(1_000)}}
LARK_CHAIN = "\n".join(["start: r0", *(f'r{n}: "a" r{n + 1}' for n in range(9_000)), 'r9000: "b"'])

REFUSED = {
    "a loop": lambda path: {"tools": [tool(path, "f", LOOP)]},
    "endless references": lambda path: {"tools": [tool(path, "f", DEEP)]},
    "a megabyte": lambda path: {"tools": [tool(path, "f", BIG)]},
    "a regex that is none": lambda path: {"tools": [custom(path, "regex", "(a")]},
    "a huge regex": lambda path: {"tools": [custom(path, "regex", "(a|b)?" * 100_000)]},
    "endless rules": lambda path: {"tools": [custom(path, "lark", LARK_CHAIN)]},
    "special tokens": lambda path: {"tools": [custom(path, "lark", "start: <|return|>")]},
    "a token id": lambda path: {"tools": [custom(path, "lark", "start: <[200002]>")]},
    "intersections": lambda path: {"tools": [custom(path, "lark", "start: A\nA: /a/ & /b/")]},
    "properties that are a list": lambda path: {"tools": [tool(path, "f", SCHEMA | PHP)]},
    "a strict format": lambda path: structured(path, BIG, strict=True),
}


@APIS
@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
async def test_an_unenforceable_constraint_is_refused_with_its_field(
    open_app: OpenApp, path: str, body: Any
) -> None:
    async with open_app(ANSWER) as app:
        answer = await ask(app, path, **body(path))
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["param"].startswith(("tools.0", "response_format", "text.format"))
        codes = ("invalid_grammar", "invalid_json_schema", "invalid_function_parameters")
        assert error["code"] in codes
        assert len(error["message"]) < 300
        assert (await ask(app, path)).status_code == 200


TAKEN = {
    "a loop through values": lambda path: {
        "tools": [
            tool(
                path,
                "f",
                SCHEMA | {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
            )
        ]
    },
    "500 tools": lambda path: {"tools": [tool(path, f"f{n}") for n in range(500)]},
    "a regex that backtracks": lambda path: {"tools": [custom(path, "regex", "(a+)+b")]},
    "nested repeats": lambda path: {"tools": [custom(path, "regex", "((a{1,99}){1,99}){1,99}b")]},
    "loose properties that are a list": lambda path: structured(path, {"type": "object", **PHP}),
    "loose properties that are null": lambda path: {
        "tools": [tool(path, "f", {"type": "object", "properties": None}, strict=None)]
    },
    "a loose loop": lambda path: {"tools": [tool(path, "f", LOOP, strict=False)]},
    "loose references that lead deep": lambda path: structured(path, DEEP_ENOUGH),
}


@APIS
@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
async def test_unusual_constraints_that_can_be_enforced_are_accepted(
    open_app: OpenApp, path: str, body: Any
) -> None:
    async with open_app(ANSWER) as app:
        answer = await ask(app, path, **body(path))
        assert answer.status_code == 200, answer.text
        assert app.backend.requests[0].grammar is not None


@APIS
async def test_a_schema_that_no_context_holds_is_refused(open_app: OpenApp, path: str) -> None:
    async with open_app(ANSWER) as app:
        answer = await ask(app, path, **structured(path, BIG))
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "context_length_exceeded"


@APIS
async def test_others_are_answered_while_a_grammar_compiles(open_app: OpenApp, path: str) -> None:
    async with open_app(ANSWER) as app:
        slow = asyncio.create_task(ask(app, path, **structured(path, SLOW | {"title": path})))
        for _ in range(3):
            fast = await ask(app, path, tools=[tool(path, "f")])
            assert fast.status_code == 200
        assert not slow.done()
        assert (await slow).status_code == 200
        assert app.backend.requests[-1].grammar == turn_grammar(GrammarSpec(answer=AnyObject()))


NEEDY = {
    "tool_choice": lambda path: {"tools": [tool(path, "f")], "tool_choice": "required"},
    "strict": lambda path: {"tools": [tool(path, "f")]},
    "format": lambda path: structured(path, SCHEMA),
    "reasoning.max_tokens": lambda path: {"reasoning": {"max_tokens": 9}},
    "reasoning.effort": lambda path: {
        "tools": [tool(path, "f", strict=False)],
        "reasoning": {"effort": "none"},
    },
}


@APIS
@pytest.mark.parametrize(("field", "body"), NEEDY.items(), ids=NEEDY)
async def test_an_engine_without_grammars_gets_none(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, path: str, field: str, body: Any
) -> None:
    async with open_app(ANSWER) as app:
        monkeypatch.setattr(
            RecordingBackend, "info", replace(app.backend.info, features=frozenset())
        )
        answer = await ask(app, path, **body(path))
        assert answer.status_code == 400
        assert field in answer.json()["error"]["param"]
        assert (await ask(app, path)).status_code == 200


@APIS
@pytest.mark.parametrize("own", ["grammar", "schema", None])
async def test_a_dead_end_of_a_grammar_is_a_client_error(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, path: str, own: str | None
) -> None:
    async def fail(
        backend: RecordingBackend, request: GenerationRequest
    ) -> AsyncGenerator[GenerationChunk, None]:
        raise DeadEnd
        yield

    declared = {"grammar": custom(path, "regex", "a+"), "schema": tool(path, "f")}
    tools = [declared[own]] if own else None
    async with open_app(ANSWER) as app:
        monkeypatch.setattr(RecordingBackend, "generate", fail)
        answer = await ask(app, path, tools=tools)
        streamed = await ask(app, path, tools=tools, stream=True)
    assert answer.status_code == (400 if own else 500)
    code = "invalid_grammar" if own else "server_error"
    assert answer.json()["error"]["code"] == code
    assert f'"code":"{code}"' in streamed.text


@APIS
async def test_a_grammar_that_proves_too_complex_is_the_requests_own_error(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    sample = RecordingBackend.generate

    async def fail(
        backend: RecordingBackend, request: GenerationRequest
    ) -> AsyncGenerator[GenerationChunk, None]:
        async with aclosing(sample(backend, request)) as chunks:
            yield await anext(chunks)
        raise InvalidGrammar("the grammar is too complex to be followed")

    async with open_app(ANSWER) as app:
        monkeypatch.setattr(RecordingBackend, "generate", fail)
        answer = await ask(app, path)
        streamed = await ask(app, path, stream=True)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_grammar")
    assert "too complex" in error["message"]
    assert streamed.status_code == 200
    assert '"code":"invalid_grammar"' in streamed.text
    assert streamed.text.endswith("data: [DONE]\n\n")
