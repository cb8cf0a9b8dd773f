"""Hosted tools in requests of the Responses API: sessions, declarations, grammar and errors."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harmony.grammar import (
    AnyObject,
    CallableTool,
    FreeText,
    GrammarSpec,
    SchemaJson,
    turn_grammar,
)
from harmony.messages import DeveloperContent, SystemContent
from harmony.tools import PYTHON
from server.errors import InvalidRequest
from server.generation.hosted_calls import DEFAULT_TIMEOUT
from server.http.bodies.json_text import validate
from server.inbound import responses
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.inbound.hosted import hosted_entries
from server.inbound.responses import CompiledResponse
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.responses import CreateResponse
from server.store.conversations.base import Conversation
from server.store.items import StoredItem
from server.store.responses.base import StoredResponse
from server.store.responses.memory import MemoryStore
from server.tools import closing
from server.tools.base import ToolCall, ToolContext, ToolSession
from tests.server.tools.sample_tools import (
    QUERY,
    Calculator,
    Library,
    SampleSession,
    SampleTool,
    Servers,
    by_type,
)

NEEDED, ALWAYS, NEVER = Masking("needed"), Masking("always"), Masking("never")
TODAY = "2026-01-31"
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
SEARCH = {"type": "web_search"}
MCP = {"type": "mcp", "server_label": "dmcp"}
DOWN = {"type": "mcp", "server_label": "down"}
F = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
PYTHON_CALL = CallableTool("python", FreeText())
SEARCH_CALLS = (CallableTool("browser.search", SchemaJson(QUERY)), CallableTool("browser.open"))
MCP_SEARCH = CallableTool("functions.dmcp__search", SchemaJson(QUERY))
MCP_CREATE = CallableTool("functions.dmcp__create", SchemaJson(QUERY))
F_CALL = CallableTool("functions.f")


def context_with(
    *tools: SampleTool, store: MemoryStore | None = None, masking: Masking = NEEDED, **more: Any
) -> CompileContext:
    return CompileContext(
        "a",
        TODAY,
        store or MemoryStore(),
        Recall(),
        Sealer(),
        masking,
        answer_id="resp_1",
        tools=by_type(*tools),
        **more,
    )


async def compiled(
    *tools: SampleTool,
    memory: MemoryStore | None = None,
    masking: Masking = NEEDED,
    **fields: Any,
) -> CompiledResponse:
    request = validate({"input": "hi"} | fields, CreateResponse)
    return await responses.compile(request, context_with(*tools, store=memory, masking=masking))


async def refused(*tools: SampleTool, **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await compiled(*tools, **fields)
    return caught.value


def system(request: CompiledResponse) -> SystemContent:
    content = request.plan.conversation.messages[0].content
    assert isinstance(content, SystemContent)
    return content


def functions(request: CompiledResponse) -> list[str]:
    content = request.plan.conversation.messages[1].content
    assert isinstance(content, DeveloperContent)
    [namespace] = content.tools
    assert namespace.name == "functions"
    return [tool.name for tool in namespace.tools]


async def test_a_built_in_tool_is_declared_in_the_system_message() -> None:
    request = await compiled(Calculator(), Library(), tools=[CODE, SEARCH])
    assert [each.name for each in system(request).tools] == ["python", "browser"]
    assert system(request).tools[0] == PYTHON
    assert len(request.plan.conversation.messages) == 2


async def test_functions_of_a_hosted_tool_stand_beside_those_of_the_client() -> None:
    request = await compiled(Servers(), tools=[MCP, F])
    assert functions(request) == ["f", "dmcp__search", "dmcp__create"]
    assert system(request).tools == ()


async def test_a_plan_has_a_hosted_tool_for_each_recipient() -> None:
    request = await compiled(Library(), Servers(), tools=[SEARCH, F, MCP])
    declared = {tool.recipient: (tool.kind, tool.name) for tool in request.plan.tools}
    assert declared == {
        "functions.f": ("function", "f"),
        "browser.search": ("hosted", "browser.search"),
        "browser.open": ("hosted", "browser.open"),
        "functions.dmcp__search": ("hosted", "dmcp__search"),
        "functions.dmcp__create": ("hosted", "dmcp__create"),
    }
    hosted = request.plan.tool("browser.open").hosted
    assert hosted is not None
    assert hosted.item == "web_search_call"


async def test_a_session_is_opened_with_the_context_of_its_answer() -> None:
    tool = Calculator()
    include = ["code_interpreter_call.outputs"]
    request = await compiled(tool, tools=[F, CODE], include=include, store=False)
    [session] = tool.opened
    assert request.sessions == ((session,),)
    context = session.context
    assert (context.owner, context.answer_id, context.param) == ("a", "resp_1", "tools.1")
    assert context.include == {"code_interpreter_call.outputs"}
    assert (context.timeout, context.state, context.stored) == (DEFAULT_TIMEOUT, None, False)


async def test_a_tool_has_its_own_time_limit() -> None:
    tool = Calculator()
    context = context_with(tool, tool_timeouts={"python": 7.0})
    await responses.compile(validate({"input": "hi", "tools": [CODE]}, CreateResponse), context)
    assert tool.opened[0].context.timeout == 7.0


@pytest.mark.parametrize(
    ("timeouts", "seconds"),
    [
        ({}, DEFAULT_TIMEOUT),
        ({"mcp": 7.0, "mcp.other": 9.0}, 7.0),
        ({"mcp": 7.0, "mcp.dmcp": 90.0}, 90.0),
        ({"mcp.dmcp": 5.0}, 5.0),
    ],
)
async def test_an_mcp_server_has_the_time_limit_of_its_label(
    timeouts: dict[str, float], seconds: float
) -> None:
    tool = Servers()
    context = context_with(tool, tool_timeouts=timeouts)
    await responses.compile(validate({"input": "hi", "tools": [MCP]}, CreateResponse), context)
    assert tool.opened[0].context.timeout == seconds


async def test_a_request_without_hosted_tools_opens_no_session() -> None:
    tool = Calculator()
    request = await compiled(tool, tools=[F])
    assert (request.sessions, tool.opened) == (((),), [])


def stored(**fields: Any) -> StoredResponse:
    response = {"id": "resp_0", "status": "completed", "output": [], "created_at": 1}
    items = ((), (), ())
    return StoredResponse("a", response | fields, TODAY, *items, tool_state={"python": {"n": 1}})


async def test_a_session_gets_the_state_of_the_previous_response() -> None:
    tool, store = Calculator(), MemoryStore()
    earlier = stored()
    await store.begin(earlier)
    await store.end(earlier, [])
    await compiled(tool, memory=store, tools=[CODE], previous_response_id="resp_0")
    assert tool.opened[0].context.state == {"n": 1}


@pytest.mark.parametrize("unknown", [{}, {"server_label": "dmcp"}])
async def test_a_session_gets_the_state_of_a_response_that_is_not_stored(
    unknown: dict[str, str],
) -> None:
    tool = Calculator()
    fields = {"input": "hi", "tools": [CODE | unknown], "previous_response_id": "resp_0"}
    context = context_with(tool, previous=stored())
    await responses.compile(validate(fields, CreateResponse), context)
    assert tool.opened[0].context.state == {"n": 1}


async def test_each_mcp_server_has_a_state_of_its_own() -> None:
    tool = Servers()
    earlier = stored()
    earlier = StoredResponse(
        "a", earlier.response, TODAY, (), (), (), tool_state={"mcp.dmcp": {"n": 2}}
    )
    fields = {
        "input": "hi",
        "tools": [MCP, MCP | {"server_label": "other"}],
        "previous_response_id": "resp_0",
    }
    context = context_with(tool, previous=earlier)
    await responses.compile(validate(fields, CreateResponse), context)
    assert [session.context.state for session in tool.opened] == [{"n": 2}, None]


async def test_a_session_gets_the_hosted_items_before_its_answer() -> None:
    tool = Servers()
    listing = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "dmcp", "tools": []}
    await compiled(tool, input=[{"role": "user", "content": "hi"}, listing], tools=[MCP])
    assert tool.opened[0].context.history == (listing,)


async def test_a_session_gets_the_hosted_items_that_references_name() -> None:
    tool, store = Servers(), MemoryStore()
    listing = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "dmcp", "tools": []}
    response = {"id": "resp_0", "status": "completed"}
    earlier = StoredResponse("a", response, TODAY, (), (), (StoredItem(listing),))
    await store.begin(earlier)
    await store.end(earlier, [])
    await compiled(
        tool,
        memory=store,
        input=[{"type": "item_reference", "id": "mcpl_1"}, {"role": "user", "content": "hi"}],
        tools=[MCP],
    )
    assert tool.opened[0].context.history == (listing,)


class AskingSession(SampleSession):
    """A session whose calls may be approved."""

    async def check(self, call: ToolCall, param: str) -> None:
        pass

    async def refuse(self, call: ToolCall, param: str) -> None:
        pass


class AskingServers(Servers):
    async def open(self, config: Mapping[str, Any], context: ToolContext) -> ToolSession:
        return AskingSession(self.declare(config, context), context)


APPROVAL = [
    {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "dmcp",
        "name": "gone",
        "arguments": "{}",
    },
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
]


@pytest.mark.parametrize(("is_new", "names"), [(True, ["gone"]), (False, [])])
async def test_an_approved_call_is_declared_unless_it_ran_before(
    is_new: bool, names: list[str]
) -> None:
    fields = {"input": APPROVAL, "tools": [MCP]}
    context = context_with(AskingServers(), is_new=is_new)
    request = await responses.compile(validate(fields, CreateResponse), context)
    assert [each.call.recipient.partition("__")[2] for each in request.answered] == names
    assert [tool.name for tool in request.plan.tools] == ["dmcp__search", "dmcp__create", *names]


async def test_an_approval_for_a_server_that_the_request_does_not_name_is_refused() -> None:
    error = await refused(AskingServers(), input=APPROVAL)
    assert (error.param, error.code) == (
        "input.1.approval_request_id",
        "approval_request_mismatch",
    )


async def test_a_new_conversation_has_no_state() -> None:
    tool, store = Calculator(), MemoryStore()
    await store.conversations.create(Conversation("a", "conv_1", 1, TODAY), [])
    await compiled(tool, memory=store, tools=[CODE], conversation="conv_1")
    assert tool.opened[0].context.state is None


# Errors


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"tools": [F, {"type": "code_interpreter"}]}, "tools.1.container", None),
        ({"tools": [CODE, CODE]}, "tools.1", "duplicate_tool"),
        ({"tools": [SEARCH, {"type": "web_search_preview"}]}, "tools.1", "duplicate_tool"),
        ({"tools": [MCP, MCP]}, "tools.1", "duplicate_tool"),
        ({"tools": [MCP, F | {"name": "dmcp__search"}]}, "tools.0", "duplicate_tool"),
        ({"tools": [CODE, {"type": 1}]}, "tools.1.type", "invalid_type"),
        ({"tools": [CODE, "x"]}, "tools.1", "invalid_type"),
        ({"tools": {}}, "tools", "invalid_type"),
        ({"tools": [CODE], "temperature": 9}, "temperature", None),
    ],
)
async def test_an_error_names_the_field(fields: Any, param: str, code: str | None) -> None:
    error = await refused(Calculator(), Library(), Servers(), **fields)
    assert error.param == param
    assert code in (None, error.code)


async def test_a_tool_that_is_named_twice_is_named_as_the_request_names_it() -> None:
    error = await refused(Calculator(), tools=[CODE, CODE])
    assert "the tool of 'code_interpreter' is named twice" in error.message


async def test_an_error_closes_the_sessions() -> None:
    tool = Calculator()
    await refused(tool, tools=[CODE], temperature=9)
    assert [session.closed for session in tool.opened] == [1]


async def test_a_tool_that_does_not_open_closes_the_others() -> None:
    calculator, library = Calculator(), Library(failure=RuntimeError("no"))
    with pytest.raises(RuntimeError, match="no"):
        await compiled(calculator, library, tools=[CODE, SEARCH])
    assert [session.closed for session in calculator.opened] == [1]


async def test_a_request_that_is_cancelled_while_it_opens_closes_what_is_open() -> None:
    opening = asyncio.Event()

    class Slow(Library):
        async def open(self, config: Any, context: Any) -> Any:
            opening.set()
            await asyncio.Event().wait()

    calculator = Calculator()
    task = asyncio.create_task(compiled(calculator, Slow(), tools=[CODE, SEARCH]))
    await opening.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [session.closed for session in calculator.opened] == [1]


async def test_a_session_that_fails_to_close_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: SampleSession) -> None:
        raise OSError("the secret text")

    monkeypatch.setattr(SampleSession, "close", fail)
    error = await refused(Calculator(), tools=[CODE], temperature=9)
    assert error.param == "temperature"
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_session_that_does_not_close_does_not_keep_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stick(self: SampleSession) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(closing, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(SampleSession, "close", stick)
    error = await asyncio.wait_for(refused(Calculator(), tools=[CODE], temperature=9), 60)
    assert error.param == "temperature"


async def test_a_request_that_does_not_run_closes_its_sessions() -> None:
    tool = Calculator()
    request = await compiled(tool, tools=[CODE])
    await request.close("resp_1")
    assert [session.closed for session in tool.opened] == [1]


async def test_a_tool_that_cannot_run_here_is_refused_with_the_reason() -> None:
    error = await refused(Calculator(problem="there is no sandbox"), tools=[F, CODE])
    assert (error.status, error.param, error.code) == (400, "tools.1", "tool_unavailable")
    assert "there is no sandbox" in error.message


async def test_a_tool_that_cannot_run_here_matters_only_where_it_is_named() -> None:
    request = await compiled(Calculator(problem="there is no sandbox"), tools=[F])
    assert request.tools.unserved_kinds == ()


async def test_a_kind_that_the_server_does_not_have_is_left_out() -> None:
    request = await compiled(Calculator(), tools=[CODE, {"type": "file_search"}])
    assert request.tools.unserved_kinds == ("file_search",)


# Grammar and tool choice


async def spec_of(*tools: SampleTool, **fields: Any) -> GrammarSpec:
    spec = (await compiled(*tools, **fields)).plan.constraint.spec
    assert spec is not None
    return spec


async def test_a_request_with_a_hosted_tool_has_a_grammar() -> None:
    spec = await spec_of(Calculator(), Library(), tools=[CODE, SEARCH])
    assert spec == GrammarSpec((PYTHON_CALL, *SEARCH_CALLS))


async def test_only_the_hosted_tools_that_a_request_names_can_be_called() -> None:
    spec = await spec_of(Calculator(), Library(), Servers(), tools=[F, SEARCH])
    assert spec.tools == (F_CALL, *SEARCH_CALLS)


async def test_a_schema_that_does_not_compile_is_replaced_by_any_object() -> None:
    class Strange(Servers):
        def declare(self, config: Any, context: Any) -> Any:
            declaration = super().declare(config, context)
            odd = SchemaJson({"type": "object", "not": {"required": ["a"]}})
            object.__setattr__(declaration, "calls", (CallableTool("functions.odd", odd),))
            return declaration

    spec = await spec_of(Strange(), tools=[MCP])
    assert spec.tools == (CallableTool("functions.odd", AnyObject()),)


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        ({"type": "code_interpreter"}, (PYTHON_CALL,)),
        ({"type": "web_search"}, SEARCH_CALLS),
        ({"type": "web_search_preview"}, SEARCH_CALLS),
        ({"type": "web_search_preview_2025_03_11"}, SEARCH_CALLS),
        ({"type": "mcp", "server_label": "dmcp"}, (MCP_SEARCH, MCP_CREATE)),
        ({"type": "mcp", "server_label": "dmcp", "name": "create"}, (MCP_CREATE,)),
        ({"type": "function", "name": "f"}, (F_CALL,)),
        ("required", (F_CALL, PYTHON_CALL, *SEARCH_CALLS, MCP_SEARCH, MCP_CREATE)),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
            },
            (F_CALL, *SEARCH_CALLS),
        ),
    ],
)
async def test_a_tool_choice_requires_the_calls_that_it_names(choice: Any, calls: Any) -> None:
    tools = [CODE, SEARCH, MCP, F]
    everything = (Calculator(), Library(), Servers())
    spec = await spec_of(*everything, tools=tools, tool_choice=choice)
    assert spec == GrammarSpec(calls, call_required=True)


async def test_hosted_tools_may_be_among_those_that_are_allowed() -> None:
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "mcp", "server_label": "dmcp", "name": "search"}],
    }
    spec = await spec_of(Calculator(), Servers(), tools=[CODE, MCP], tool_choice=allowed)
    assert spec == GrammarSpec((MCP_SEARCH,))


async def test_no_hosted_tool_can_be_called_where_none_may_be() -> None:
    spec = await spec_of(Calculator(), tools=[CODE], tool_choice="none")
    assert spec == GrammarSpec()


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "mcp"}, "tool_choice.server_label"),
        ({"type": "mcp", "server_label": "x"}, "tool_choice.server_label"),
        ({"type": "mcp", "server_label": "dmcp", "name": "x"}, "tool_choice.name"),
        ({"type": "mcp", "server_label": "empty"}, "tool_choice"),
        (
            {"type": "allowed_tools", "tools": [{"type": "web_search"}]},
            "tool_choice.tools.0.type",
        ),
    ],
)
async def test_an_error_names_the_bad_field_of_a_tool_choice(choice: Any, param: str) -> None:
    tools = [CODE, MCP, {"type": "mcp", "server_label": "empty", "allowed_tools": []}]
    error = await refused(Calculator(), Servers(), tools=tools, tool_choice=choice)
    assert error.param == param


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([CODE], "the request has no tool of type 'web_search'"),
        ([CODE, SEARCH], "'web_search' is not a tool that this server can call"),
        (
            [CODE, {"type": "web_search_preview"}],
            "'web_search' is not a tool that this server can call",
        ),
    ],
)
async def test_the_error_says_who_lacks_the_tool_of_a_choice(tools: Any, problem: str) -> None:
    error = await refused(Calculator(), tools=tools, tool_choice={"type": "web_search"})
    assert problem in error.message


async def test_an_unserved_tool_may_be_allowed_under_the_name_of_another_version() -> None:
    allowed = {"type": "allowed_tools", "tools": [CODE, {"type": "web_search"}]}
    tools = [CODE, {"type": "web_search_preview"}]
    request = await compiled(Calculator(), tools=tools, tool_choice=allowed)
    assert request.tools.unserved_kinds == ("web_search_preview",)


async def test_a_call_cannot_be_required_of_a_server_without_tools() -> None:
    tools: list[Any] = [MCP | {"allowed_tools": []}]
    error = await refused(Servers(), tools=tools, tool_choice="required")
    assert error.param == "tool_choice"


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        DOWN,
        DOWN | {"name": "search"},
        {"type": "allowed_tools", "mode": "required", "tools": [DOWN]},
    ],
)
async def test_an_error_says_why_a_server_has_not_the_tools_of_a_choice(choice: Any) -> None:
    error = await refused(Servers(), tools=[DOWN], tool_choice=choice)
    assert "the MCP server 'down' did not list its tools: HTTP 401" in error.message


async def test_an_answer_goes_on_without_allowed_tools_that_a_server_did_not_list() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [DOWN, MCP | {"name": "search"}]}
    spec = await spec_of(Servers(), tools=[DOWN, MCP], tool_choice=allowed)
    assert spec == GrammarSpec((MCP_SEARCH,))


async def test_a_client_function_is_not_named_by_a_hosted_choice() -> None:
    error = await refused(tools=[F], tool_choice={"type": "mcp", "server_label": "dmcp"})
    assert error.param == "tool_choice.type"


async def test_the_schemas_of_hosted_tools_are_not_the_requests_own() -> None:
    hosted = await compiled(Servers(), tools=[MCP])
    assert hosted.plan.constraint.grammar is not None
    assert not hosted.plan.constraint.own_grammar
    strict = F | {"strict": True, "parameters": QUERY}
    assert (await compiled(Servers(), tools=[MCP, strict])).plan.constraint.own_grammar


async def test_without_masks_hosted_tools_work_without_a_grammar() -> None:
    request = await compiled(Calculator(), masking=NEVER, tools=[CODE])
    assert (request.plan.constraint.grammar, request.plan.constraint.spec) == (None, None)
    assert request.plan.tool("python").kind == "hosted"


async def test_without_masks_a_hosted_tool_choice_is_refused() -> None:
    choice = {"type": "code_interpreter"}
    error = await refused(Calculator(), masking=NEVER, tools=[CODE], tool_choice=choice)
    assert (error.param, error.code) == ("tool_choice", "unsupported_parameter")


async def test_a_call_of_a_hosted_tool_ends_the_sampling() -> None:
    masking = Masking("needed", parallel_calls=True)
    alone = await compiled(masking=masking, tools=[F])
    beside = await compiled(Calculator(), masking=masking, tools=[F, CODE])
    assert alone.plan.constraint.parallel_calls
    assert not beside.plan.constraint.parallel_calls
    assert beside.plan.constraint.spec == GrammarSpec((F_CALL, PYTHON_CALL))


async def test_without_reasoning_a_hosted_tool_can_be_called() -> None:
    request = await compiled(Calculator(), tools=[CODE], reasoning={"effort": "none"})
    assert request.plan.constraint.spec == GrammarSpec((PYTHON_CALL,), reasoning=False)
    assert request.plan.constraint.prefill == ()


async def test_the_grammar_after_reasoning_is_that_of_the_spec() -> None:
    request = await compiled(Calculator(), tools=[CODE], reasoning={"max_tokens": 9})
    spec = request.plan.constraint.spec
    assert spec == GrammarSpec((PYTHON_CALL,), reasoning_budget=9)
    assert spec is not None
    assert request.plan.constraint.reasoned_grammar == turn_grammar(replace(spec, reasoning=False))


async def test_bodies_of_different_kinds_have_different_grammars() -> None:
    class Json(Calculator):
        def declare(self, config: Any, context: Any) -> Any:
            declaration = super().declare(config, context)
            object.__setattr__(declaration, "calls", (CallableTool("python"),))
            return declaration

    code = await compiled(Calculator(), tools=[CODE])
    json = await compiled(Json(), tools=[CODE])
    assert code.plan.constraint.grammar != json.plan.constraint.grammar


async def test_sessions_of_equal_requests_share_a_compiled_grammar() -> None:
    tool = Calculator()
    first = await compiled(tool, tools=[CODE])
    second = await compiled(tool, tools=[CODE])
    assert first.plan.tools != second.plan.tools
    assert first.plan.constraint.spec is second.plan.constraint.spec


async def test_the_limit_on_calls_is_part_of_the_plan() -> None:
    request = await compiled(Calculator(), tools=[CODE], max_tool_calls=3)
    assert request.plan.max_tool_calls == 3


@pytest.mark.parametrize("label", ["container", "code_interpreter"])
@pytest.mark.parametrize("url", [{}, {"server_url": "http://localhost:8888"}])
def test_labels_of_vllm_are_built_in_tools(label: str, url: dict[str, Any]) -> None:
    tools: Any = {"code_interpreter": object(), "mcp": object()}
    item = {"type": "mcp", "server_label": label, **url}
    (entry,) = hosted_entries([item], tools)
    assert entry.config == {"type": "code_interpreter", "container": {"type": "auto"}}
    assert entry.tool is tools["code_interpreter"]
    assert hosted_entries([item], {"mcp": tools["mcp"]}) == ()


def test_a_public_server_may_have_a_label_of_vllm() -> None:
    tools: Any = {"code_interpreter": object(), "mcp": object()}
    item = {"type": "mcp", "server_label": "container", "server_url": "https://mcp.example"}
    assert hosted_entries([item], tools)[0].tool is tools["mcp"]
