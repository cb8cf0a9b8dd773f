"""Hosted tools in Chat Completions requests."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from harmony.grammar import CallableTool, FreeText, GrammarSpec
from harmony.messages import SystemContent
from server.errors import InvalidRequest
from server.http.bodies.json_text import validate
from server.inbound import chat
from server.inbound.chat import CompiledChat
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.chat import CreateChatCompletion
from server.store.responses.memory import MemoryStore
from server.tools.base import ToolContext, ToolSession
from tests.server.tools.sample_tools import Calculator, Library, SampleTool, by_type

CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
SEARCH = {"type": "web_search"}
F = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
LOCATION = {"type": "approximate", "city": "Dover"}


async def compiled(*tools: SampleTool, **fields: Any) -> CompiledChat:
    context = CompileContext(
        "a",
        "2026-01-31",
        MemoryStore(),
        Recall(),
        Sealer(),
        Masking("needed"),
        answer_id="chatcmpl_1",
        tools=by_type(*tools),
    )
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields
    return await chat.compile(validate(body, CreateChatCompletion), context)


async def refused(*tools: SampleTool, **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await compiled(*tools, **fields)
    return caught.value


async def test_hosted_tools_stand_beside_the_clients_functions() -> None:
    request = await compiled(Calculator(), tools=[F, CODE])
    [plan] = request.plans
    content = plan.conversation.messages[0].content
    assert isinstance(content, SystemContent)
    assert [namespace.name for namespace in content.tools] == ["python"]
    assert [tool.kind for tool in plan.tools] == ["function", "hosted"]
    calls = (CallableTool("functions.f"), CallableTool("python", FreeText()))
    assert plan.constraint.spec == GrammarSpec(calls)


async def test_hosted_tools_stand_beside_legacy_functions() -> None:
    request = await compiled(Library(), functions=[F["function"]], web_search_options={})
    recipients = [tool.recipient for tool in request.plans[0].tools]
    assert recipients == ["functions.f", "browser.search", "browser.open"]


async def test_each_answer_has_sessions_of_its_own() -> None:
    calculator, library = Calculator(), Library()
    request = await compiled(calculator, library, tools=[SEARCH, CODE], n=3)
    sessions = [list(each) for each in zip(library.opened, calculator.opened, strict=True)]
    assert [list(each) for each in request.sessions] == sessions
    hosted = [plan.tool("python").hosted for plan in request.plans]
    assert [each and each.fields["container_id"] for each in hosted] == [
        "cntr_0",
        "cntr_1",
        "cntr_2",
    ]
    assert {session.context.answer_id for session in calculator.opened} == {"chatcmpl_1"}


async def test_the_sessions_of_all_answers_are_opened_at_the_same_time() -> None:
    together = asyncio.Barrier(3)

    class Slow(Calculator):
        async def open(self, config: Mapping[str, Any], context: ToolContext) -> ToolSession:
            async with asyncio.timeout(60):
                await together.wait()
            return await super().open(config, context)

    request = await compiled(Slow(), tools=[CODE], n=3)
    assert len(request.sessions) == 3


async def test_an_error_closes_the_sessions_of_all_answers() -> None:
    tool = Calculator()
    error = await refused(tool, tools=[CODE], n=2, temperature=9)
    assert error.param == "temperature"
    assert [session.closed for session in tool.opened] == [1, 1]


SEARCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tool": ({"tools": [SEARCH | {"user_location": LOCATION}]}, {"user_location": LOCATION}),
    "empty options": ({"web_search_options": {}}, {}),
    "options": (
        {
            "web_search_options": {
                "search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": {"city": "Dover"}},
            }
        },
        {"search_context_size": "low", "user_location": LOCATION},
    ),
    "openrouter": ({"tools": [{"type": "openrouter:web_search"}]}, {}),
    "openrouter with parameters": (
        {
            "tools": [
                F,
                {
                    "type": "openrouter:web_search",
                    "parameters": {
                        "engine": "auto",
                        "max_results": 3,
                        "search_context_size": "high",
                        "allowed_domains": ["a.example"],
                        "excluded_domains": ["b.example"],
                        "user_location": LOCATION,
                    },
                },
            ]
        },
        {
            "max_results": 3,
            "search_context_size": "high",
            "filters": {"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]},
            "user_location": LOCATION,
        },
    ),
    "plugin": ({"plugins": [{"id": "pdf"}, {"id": "web", "max_results": 2}]}, {"max_results": 2}),
}


@pytest.mark.parametrize(("fields", "config"), SEARCHES.values(), ids=SEARCHES)
async def test_every_form_of_a_search_is_one_tool(fields: Any, config: Any) -> None:
    tool = Library()
    request = await compiled(tool, **fields)
    assert tool.configs == [{"type": "web_search"} | config]
    assert request.tools.unserved_kinds == ()
    assert request.plans[0].tool("browser.search").kind == "hosted"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [SEARCH], "web_search_options": {}}, "web_search_options"),
        ({"web_search_options": {}, "plugins": [{"id": "web"}]}, "plugins.0"),
        ({"web_search_options": 1}, "web_search_options"),
        ({"web_search_options": {"user_location": 1}}, "web_search_options.user_location"),
        (
            {"web_search_options": {"user_location": {"approximate": 1}}},
            "web_search_options.user_location.approximate",
        ),
        ({"plugins": {}}, "plugins"),
        ({"plugins": [1]}, "plugins.0"),
        ({"tools": [{"type": "openrouter:web_search", "parameters": 1}]}, "tools.0.parameters"),
    ],
)
async def test_an_error_names_the_field_of_a_search(fields: Any, param: str) -> None:
    assert (await refused(Library(), **fields)).param == param


async def test_a_plugin_that_is_off_is_no_tool() -> None:
    request = await compiled(Library(), plugins=[{"id": "web", "enabled": False}])
    assert (request.plans[0].tools, request.tools.unserved_kinds) == ((), ())


async def test_without_a_search_its_options_are_refused() -> None:
    error = await refused(Calculator(), web_search_options={})
    assert error.param == "web_search_options"


@pytest.mark.parametrize(
    ("fields", "left_out"),
    [
        ({"plugins": [{"id": "web"}]}, ("web_search",)),
        ({"tools": [{"type": "openrouter:web_search"}]}, ("openrouter:web_search",)),
        ({"tools": [SEARCH], "plugins": [{"id": "web"}]}, ("web_search",)),
    ],
)
async def test_without_a_search_other_forms_are_left_out(fields: Any, left_out: Any) -> None:
    assert (await compiled(Calculator(), **fields)).tools.unserved_kinds == left_out


async def test_a_hosted_tool_can_be_required() -> None:
    choice = {"type": "code_interpreter"}
    request = await compiled(Calculator(), tools=[F, CODE], tool_choice=choice)
    calls = (CallableTool("python", FreeText()),)
    assert request.plans[0].constraint.spec == GrammarSpec(calls, call_required=True)
