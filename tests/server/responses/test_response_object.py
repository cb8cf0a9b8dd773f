"""The response object before its first token."""

from dataclasses import replace
from typing import Any

import pytest
from openai.types.responses import Response

from server.http.bodies.json_text import validate
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.inbound.responses import compile
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.responses.response_object import response_object
from server.schemas.responses import CreateResponse
from server.store.responses.memory import MemoryStore
from tests.server.tools.sample_tools import Calculator, SampleTool, Servers, by_type

# Required by the Open Responses specification of 2026-04-24 (schema ResponseResource).
FIELDS = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
]
NULL_UNTIL_KNOWN = [
    "completed_at",
    "incomplete_details",
    "previous_response_id",
    "instructions",
    "error",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
]


async def response(*tools: SampleTool, **fields: Any) -> dict[str, Any]:
    request = validate({"input": "hi"} | fields, CreateResponse)
    context = CompileContext("a", "2026-01-31", MemoryStore(), Recall(), Sealer(), Masking())
    context = replace(context, tools=by_type(*tools))
    compiled = await compile(request, context)
    created = response_object(request, compiled, response_id="resp_1", model="m", created_at=9)
    Response.model_validate(created, strict=True)
    return created


async def test_all_fields_are_present_and_some_may_be_null() -> None:
    created = await response()
    assert sorted(created) == sorted(FIELDS)
    assert sorted(name for name in created if created[name] is None) == sorted(NULL_UNTIL_KNOWN)
    assert created["text"]["format"] == {"type": "text"}
    assert created["reasoning"] == {"effort": "medium", "summary": None}
    assert (created["status"], created["store"], created["tool_choice"]) == (
        "in_progress",
        True,
        "auto",
    )


async def test_request_parameters_are_echoed() -> None:
    parameters = {
        "instructions": "Be kind.",
        "max_output_tokens": 5,
        "max_tool_calls": 2,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "service_tier": "priority",
        "store": False,
        "temperature": 0.0,
        "top_logprobs": 3,
        "top_p": 0.5,
        "truncation": "auto",
        "user": "u",
    }
    created = await response(**parameters)
    assert {name: created[name] for name in parameters} == parameters


async def test_a_priority_overrides_the_service_tier() -> None:
    created = await response(priority=50, service_tier="priority")
    assert created["service_tier"] == "default"


async def test_the_effort_is_the_effective_one() -> None:
    efforts = [
        (await response(reasoning={"effort": effort, "summary": "auto"}))["reasoning"]
        for effort in ("none", "minimal", "xhigh")
    ]
    assert [effort["effort"] for effort in efforts] == ["none", "low", "high"]
    assert efforts[0]["summary"] == "auto"


@pytest.mark.parametrize(("budget", "effort"), [(0, "none"), (5, "low")])
async def test_the_budget_of_the_reasoning_is_echoed(budget: int, effort: str) -> None:
    created = await response(reasoning={"max_tokens": budget})
    assert created["reasoning"] == {"effort": effort, "summary": None, "max_tokens": budget}


@pytest.mark.parametrize(
    ("context", "effective"),
    [("auto", "current_turn"), ("current_turn", "current_turn"), ("all_turns", "all_turns")],
)
async def test_the_turns_whose_reasoning_the_prompt_has_are_echoed(
    context: str, effective: str
) -> None:
    created = await response(reasoning={"context": context})
    assert created["reasoning"]["context"] == effective


async def test_tools_are_echoed_except_unserved_ones() -> None:
    custom = {"type": "custom", "name": "sql"}
    namespace = {"type": "namespace", "name": "n", "description": "d", "tools": [custom]}
    created = await response(
        tools=[
            {"type": "function", "name": "f"},
            {"type": "web_search"},
            custom,
            namespace,
        ],
        tool_choice={"type": "function", "name": "f"},
    )
    function = {"type": "function", "name": "f", "description": None} | {
        "parameters": None,
        "strict": None,
    }
    assert created["tools"] == [function, custom, namespace]
    assert created["tool_choice"] == {"type": "function", "name": "f"}
    assert created["gpt_oss:unserved_tools"] == ["web_search"]


async def test_hosted_tools_are_echoed_at_their_place_as_they_were_read() -> None:
    function = {"type": "function", "name": "f", "description": None}
    function |= {"parameters": None, "strict": None}
    created = await response(
        Calculator(),
        Servers(),
        tools=[
            {"type": "mcp", "server_label": "dmcp", "server_url": "x", "authorization": "secret"},
            function,
            {"type": "file_search"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ],
        tool_choice={"type": "mcp", "server_label": "dmcp", "headers": {"key": "secret"}},
        max_tool_calls=3,
    )
    assert created["tools"] == [
        {"type": "mcp", "server_label": "dmcp", "headers": None},
        function,
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": []}},
    ]
    assert created["tool_choice"] == {"type": "mcp", "server_label": "dmcp"}
    assert (created["max_tool_calls"], created["gpt_oss:unserved_tools"]) == (3, ["file_search"])


async def test_a_schema_is_echoed_with_all_its_fields() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    created = await response(text={"format": form, "verbosity": "low"})
    assert created["text"] == {
        "format": {**form, "description": None, "strict": False},
        "verbosity": "low",
    }


async def test_a_schema_in_the_form_of_chat_is_echoed_in_that_of_responses() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    nested = {"name": "n", "description": "d", "schema": schema, "strict": True}
    created = await response(text={"format": {"type": "json_schema", "json_schema": nested}})
    assert created["text"]["format"] == {"type": "json_schema", **nested}


async def test_any_json_is_echoed() -> None:
    created = await response(text={"format": {"type": "json_object"}})
    assert created["text"]["format"] == {"type": "json_object"}


async def test_tools_in_the_form_of_chat_are_echoed_in_that_of_responses() -> None:
    grammar = {"syntax": "regex", "definition": "a+"}
    nested = {"name": "c", "format": {"type": "grammar", "grammar": grammar}}
    flat = {"type": "custom", "name": "c", "format": {"type": "grammar", **grammar}}
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": None}
    namespace = {"type": "namespace", "name": "n", "description": "d"}
    created = await response(
        tools=[
            {"type": "custom", "custom": nested},
            {"type": "function", "function": function},
            {**namespace, "tools": [{"type": "custom", "custom": nested}]},
        ]
    )
    assert created["tools"] == [
        flat,
        {"type": "function", **function},
        {**namespace, "tools": [flat]},
    ]


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ("none", "none"),
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ({"type": "custom", "custom": {"name": "c"}}, {"type": "custom", "name": "c"}),
        (
            {"type": "function", "name": "g", "namespace": "n"},
            {"type": "function", "name": "g", "namespace": "n"},
        ),
        (
            {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}],
            },
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
        ),
        (
            {"type": "allowed_tools", "tools": [{"type": "file_search"}]},
            {"type": "allowed_tools", "mode": "auto", "tools": []},
        ),
    ],
)
async def test_the_tool_choice_is_echoed_as_it_was_read(sent: Any, echoed: Any) -> None:
    function = {"type": "function", "name": "f"}
    nested = [{"type": "function", "name": "g"}]
    namespace = {"type": "namespace", "name": "n", "description": "d", "tools": nested}
    tools = [function, {"type": "custom", "name": "c"}, namespace, {"type": "file_search"}]
    created = await response(tools=tools, tool_choice=sent)
    assert created["tool_choice"] == echoed
