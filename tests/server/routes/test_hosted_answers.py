"""Answers with hosted calls through the whole application, in both APIs."""

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest
import uvicorn

from server.http.answers import sse as sse_module
from server.outbound.responses.fold import fold
from server.store.responses.base import Store
from tests.sampled import call, final
from tests.server.routes.test_responses_socket import connect
from tests.server.tools.hosted import FILE, SEARCH, Tool, script
from tests.waiting import pass_time

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
BODY: dict[str, Any] = {"input": "How much?", "tools": [CODE]}
CHAT_BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "How much?"}],
    "tools": [CODE],
}
FUNCTION_CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
THOUGHT = "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant"


def sse(answered: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream."""
    lines = [line for line in answered.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def kinds(items: list[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in items]


THREE_CALLS = script(THOUGHT + call("1"), call("2"), call("3"), final("Six."))


@pytest.mark.parametrize("include", [[], ["code_interpreter_call.outputs"]])
async def test_three_calls_in_one_response(open_app: Any, store: Store, include: list[str]) -> None:
    tool = Tool()
    async with open_app(*THREE_CALLS, store=store) as app:
        app.use(tool)
        made = (await app.post(RESPONSES, {**BODY, "include": include})).json()
        stored = (await app.client.get(f"{RESPONSES}/{made['id']}")).json()
    assert stored == made
    assert made["status"] == "completed"
    assert kinds(made["output"]) == ["reasoning", *["code_interpreter_call"] * 3, "message"]
    calls = made["output"][1:4]
    assert [item["code"] for item in calls] == ["1", "2", "3"]
    outputs = [[{"type": "logs", "logs": code}] for code in "123"] if include else [None] * 3
    assert [item["outputs"] for item in calls] == outputs
    prompts = [len(request.prompt_token_ids) for request in app.backend.requests]
    assert made["usage"]["input_tokens"] == sum(prompts)
    assert made["tool_usage"]["code_interpreter"] == {"num_requests": 3}
    (session,) = tool.sessions
    assert (len(session.calls), session.closed) == (3, 1)
    assert [each.item_id for each in session.calls] == [item["id"] for item in calls]


async def test_a_stream_shows_the_calls_as_they_are_stored(open_app: Any, store: Store) -> None:
    async with open_app(*THREE_CALLS, store=store) as app:
        app.use(Tool())
        events = sse(await app.post(RESPONSES, {**BODY, "stream": True}))
        response_id = events[0]["response"]["id"]
        stored = (await app.client.get(f"{RESPONSES}/{response_id}")).json()
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert fold(events) == stored
    shown = [
        event["type"].removeprefix("response.code_interpreter_call")
        for event in events
        if "code_interpreter_call" in event["type"]
    ]
    one = [".in_progress", "_code.delta", "_code.done", ".interpreting", ".completed"]
    assert shown == one * 3


async def test_the_next_response_repeats_calls_with_their_results(
    open_app: Any, store: Store
) -> None:
    lines = [{"prompt_contains": "And now?", "completion": final("Seven.")}]
    on_commentary = call("1").replace("analysis", "commentary")
    tool = Tool()
    async with open_app(*lines, *script(on_commentary, final()), store=store) as app:
        app.use(tool)
        first = (await app.post(RESPONSES, BODY)).json()
        asked = {**BODY, "input": "And now?", "previous_response_id": first["id"]}
        second = await app.post(RESPONSES, asked)
    assert second.json()["output"][0]["content"][0]["text"] == "Seven."
    *_, before, last = app.backend.requests
    history = before.prompt_token_ids
    assert last.prompt_token_ids[: len(history)] == history
    assert "RESULT 1<|end|>" in app.prompts[-1]
    assert [context.state for context in tool.contexts] == [None, {"calls": 1}]


async def test_a_conversation_continues_with_the_state_of_its_tools(
    open_app: Any, store: Store
) -> None:
    tool = Tool()
    async with open_app(*script(call("1"), final()), store=store) as app:
        app.use(tool)
        conversation = (await app.post("/v1/conversations", {})).json()["id"]
        for _ in range(2):
            made = await app.post(RESPONSES, {**BODY, "conversation": conversation})
            assert made.json()["status"] == "completed"
    assert [context.state for context in tool.contexts] == [None, {"calls": 1}]


async def test_a_tool_learns_of_its_calls_that_a_client_leaves_out(
    open_app: Any, store: Store
) -> None:
    lines = [{"prompt_contains": "from the client", "completion": final()}]
    tool = Tool()
    body = {"tools": [CODE, {"type": "function", "name": "f", "parameters": {}}]}
    async with open_app(*lines, *script(call("1"), FUNCTION_CALL), store=store) as app:
        app.use(tool)
        made = (await app.post(RESPONSES, {**BODY, **body})).json()
        ran, called = made["output"]
        result = {"call_id": called["call_id"], "output": "from the client"}
        more = [called, {"type": "function_call_output", **result}]
        await app.post(RESPONSES, {**body, "input": more})
    assert "RESULT 1" in app.prompts[-1]
    assert tool.contexts[-1].history == (ran,)


@pytest.mark.parametrize(
    ("fields", "options"), [({"max_tool_calls": 1}, {}), ({}, {"max_tool_rounds": 1})]
)
async def test_a_limit_of_the_request_or_the_server_is_told_to_the_model(
    open_app: Any, fields: dict[str, int], options: dict[str, int]
) -> None:
    lines = [{"prompt_contains": "limit of 1 tool calls", "completion": "So.<|return|>"}]
    async with open_app(*lines, *THREE_CALLS, **options) as app:
        app.use(Tool())
        made = (await app.post(RESPONSES, {**BODY, **fields})).json()
    assert [item["status"] for item in made["output"][1:]] == [
        "completed",
        "incomplete",
        "completed",
    ]
    assert made["output"][-1]["content"][0]["text"] == "So."


async def test_a_limit_of_a_chat_request_is_told_to_the_model(open_app: Any) -> None:
    lines = [{"prompt_contains": "limit of 1 tool calls", "completion": "So.<|return|>"}]
    tool = Tool()
    async with open_app(*lines, *THREE_CALLS, served_model_name=("m",)) as app:
        app.use(tool)
        made = (await app.post(CHAT, {**CHAT_BODY, "max_tool_calls": 1})).json()
        refused = (await app.post(CHAT, {**CHAT_BODY, "max_tool_calls": 0})).json()
    assert made["choices"][0]["message"]["content"] == "So."
    assert [len(session.calls) for session in tool.sessions] == [1]
    used = made["usage"]["server_tool_use"]
    assert (used["tool_calls_requested"], used["tool_calls_executed"]) == (2, 1)
    assert refused["error"]["param"] == "max_tool_calls"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tool_timeout": "python=7"}, "it took more than 7 seconds"),
        ({"answer_timeout": 7}, "the time for tool calls is used up"),
    ],
)
async def test_a_call_has_the_time_that_the_server_gives(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], reason: str
) -> None:
    lines = [{"prompt_contains": f"was stopped: {reason}", "completion": final("So.")}]
    tool = Tool()
    async with open_app(*lines, call("wait"), **options) as app:
        app.use(tool)
        asking = asyncio.create_task(app.post(RESPONSES, {**BODY, "max_tool_calls": 1}))
        await tool.was_opened.wait()
        await tool.sessions[0].running.wait()
        pass_time(monkeypatch, 200)
        made = (await asking).json()
    assert made["output"][-1]["content"][0]["text"] == "So."


async def test_a_tool_learns_the_time_that_its_calls_have(open_app: Any) -> None:
    tool = Tool()
    async with open_app(final(), tool_timeout="python=7") as app:
        app.use(tool)
        await app.post(RESPONSES, BODY)
    assert tool.contexts[0].timeout == 7


async def test_files_are_cited(open_app: Any) -> None:
    lines = [{"prompt_contains": "Written.", "completion": final("In sandbox:/mnt/data/a.csv")}]
    async with open_app(*lines, call("file")) as app:
        app.use(Tool())
        made = (await app.post(RESPONSES, BODY)).json()
    (annotation,) = made["output"][-1]["content"][0]["annotations"]
    assert (annotation["file_id"], annotation["start_index"]) == (FILE.file_id, 3)


async def test_a_failing_tool_is_no_error_of_the_server(open_app: Any) -> None:
    lines = [{"prompt_contains": "The tool failed", "completion": final("Sorry.")}]
    async with open_app(*lines, call("crash")) as app:
        app.use(Tool())
        made = await app.post(RESPONSES, BODY)
    assert made.status_code == 200
    assert [item["status"] for item in made.json()["output"]] == ["failed", "completed"]


async def test_a_client_that_leaves_ends_the_call(open_app: Any, store: Store) -> None:
    tool = Tool()
    async with open_app(call("wait"), store=store) as app:
        app.use(tool)
        asking = asyncio.create_task(app.post(RESPONSES, BODY))
        await tool.was_opened.wait()
        await tool.sessions[0].running.wait()
        run = next(iter(app.app.state.context.gateway.runs._runs.values()))
        asking.cancel()
        await app.until_idle()
        response_id = run.events[0]["response"]["id"]
        stored = (await app.client.get(f"{RESPONSES}/{response_id}")).json()
    assert (tool.sessions[0].ended, tool.sessions[0].closed) == (1, 1)
    assert stored["status"] == "cancelled"
    assert [item["status"] for item in stored["output"]] == ["incomplete"]


async def test_a_background_response_is_cancelled_within_a_call(
    open_app: Any, store: Store
) -> None:
    tool = Tool()
    async with open_app(call("wait"), store=store) as app:
        app.use(tool)
        made = (await app.post(RESPONSES, {**BODY, "background": True})).json()
        await tool.was_opened.wait()
        await tool.sessions[0].running.wait()
        path = f"{RESPONSES}/{made['id']}"
        await app.client.post(f"{path}/cancel")
        await app.until_idle()
        stored = (await app.client.get(path)).json()
    assert stored["status"] == "cancelled"
    assert [item["status"] for item in stored["output"]] == ["incomplete"]
    assert tool.sessions[0].ended == 1


async def test_many_answers_use_sessions_of_their_own(open_app: Any) -> None:
    def turns(name: str) -> list[dict[str, Any]]:
        return [
            {"prompt_contains": f"RESULT {name}", "completion": final(f"Done {name}.")},
            {"prompt_contains": f"ask {name}", "completion": call(name)},
        ]

    names = [f"number{index:02}" for index in range(50)]
    tool = Tool()
    async with open_app(*[line for name in names for line in turns(name)]) as app:
        app.use(tool)
        made = await asyncio.gather(
            *(app.post(RESPONSES, {**BODY, "input": f"ask {name}"}) for name in names)
        )
    texts = [each.json()["output"][-1]["content"][0]["text"] for each in made]
    assert texts == [f"Done {name}." for name in names]
    assert [len(session.calls) for session in tool.sessions] == [1] * 50


# WebSocket


async def test_a_turn_over_a_websocket_runs_calls_and_continues_them(open_app: Any) -> None:
    lines = [{"prompt_contains": "And now?", "completion": final("Seven.")}]
    on_commentary = call("1").replace("analysis", "commentary")
    tool = Tool()
    async with open_app(*lines, *script(on_commentary, final())) as app:
        app.use(tool)
        async with connect(app) as socket:
            events = await socket.turn(**BODY, store=False)
            first = events[-1]["response"]
            more = {"input": "And now?", "previous_response_id": first["id"], "store": False}
            second = await socket.answer(**{**BODY, **more})
    assert kinds(first["output"]) == ["code_interpreter_call", "message"]
    assert fold(events) == first
    assert second["output"][0]["content"][0]["text"] == "Seven."
    assert "RESULT 1<|end|>" in app.prompts[-1]
    assert [context.state for context in tool.contexts] == [None, {"calls": 1}]


async def test_a_websocket_that_closes_ends_the_call(open_app: Any) -> None:
    tool = Tool()
    async with open_app(call("wait")) as app:
        app.use(tool)
        async with connect(app) as socket:
            socket.create(**BODY)
            await tool.was_opened.wait()
            await tool.sessions[0].running.wait()
    assert (tool.sessions[0].ended, tool.sessions[0].closed) == (1, 1)


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
async def test_a_stream_gets_pings_while_a_tool_runs(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(sse_module, "PING_SECONDS", 0.01)
    tool = Tool()
    body = {**(BODY if path == RESPONSES else CHAT_BODY), "stream": True}
    loop = asyncio.get_running_loop()
    async with open_app(call("wait"), served_model_name=("m",)) as app:
        app.use(tool)
        server = uvicorn.Server(uvicorn.Config(app.app, log_config=None))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            task = asyncio.create_task(server.serve(sockets=[listener]))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            begin = loop.time()
            async with (
                httpx.AsyncClient(base_url=url) as client,
                client.stream("POST", path, json=body) as stream,
            ):
                await tool.was_opened.wait()
                await tool.sessions[0].running.wait()
                # No more can have been sent before the call.
                before = int((loop.time() - begin) / 0.01)
                pings = 0
                async for line in stream.aiter_lines():
                    pings += line == ": ping"
                    if pings > before:
                        break
                assert tool.sessions[0].ended == 0
            server.should_exit = True
            await task


# Chat


async def test_calls_run_inside_one_completion(open_app: Any) -> None:
    async with open_app(*THREE_CALLS, served_model_name=("m",)) as app:
        app.use(Tool())
        made = (await app.post(CHAT, CHAT_BODY)).json()
        streamed = sse(await app.post(CHAT, {**CHAT_BODY, "stream": True}))
    (choice,) = made["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "Six.")
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["reasoning"] == "Think."
    counts = {"web_search_requests": 0, "tool_calls_requested": 3, "tool_calls_executed": 3}
    assert made["usage"]["server_tool_use"] == counts
    prompts = [len(request.prompt_token_ids) for request in app.backend.requests[:4]]
    assert made["usage"]["prompt_tokens"] == sum(prompts)
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in streamed)
    assert text == "Six."


async def test_each_choice_has_sessions_of_its_own(open_app: Any) -> None:
    tool = Tool()
    async with open_app(*THREE_CALLS, served_model_name=("m",)) as app:
        app.use(tool)
        made = (await app.post(CHAT, {**CHAT_BODY, "n": 3})).json()
    assert [each["message"]["content"] for each in made["choices"]] == ["Six."] * 3
    assert [len(session.calls) for session in tool.sessions] == [3] * 3
    assert [session.closed for session in tool.sessions] == [1] * 3
    assert made["usage"]["server_tool_use"]["tool_calls_executed"] == 9


async def test_a_client_call_after_a_hosted_one_comes_back_with_both(open_app: Any) -> None:
    lines = [{"prompt_contains": "from the client", "completion": final("Both.")}]
    tools = [CODE, {"type": "function", "function": {"name": "f", "parameters": {}}}]
    async with open_app(*lines, *script(call("1"), FUNCTION_CALL), served_model_name=("m",)) as app:
        app.use(Tool())
        body = {**CHAT_BODY, "tools": tools}
        made = (await app.post(CHAT, body)).json()["choices"][0]
        assert made["finish_reason"] == "tool_calls"
        (called,) = made["message"]["tool_calls"]
        result = {"role": "tool", "tool_call_id": called["id"], "content": "from the client"}
        messages = [*CHAT_BODY["messages"], made["message"], result]
        last = (await app.post(CHAT, {**body, "messages": messages})).json()
    assert last["choices"][0]["message"]["content"] == "Both."
    before, after = [request.prompt_token_ids for request in app.backend.requests[1:]]
    assert after[: len(before)] == before


@pytest.mark.parametrize(
    ("fields", "state"),
    [({}, {"calls": 1}), ({"store": True}, {"calls": 1}), ({"store": False}, None)],
)
async def test_a_tool_has_its_state_after_a_client_call_of_chat(
    open_app: Any, fields: dict[str, Any], state: dict[str, Any] | None
) -> None:
    lines = [{"prompt_contains": "from the client", "completion": final()}]
    tools = [CODE, {"type": "function", "function": {"name": "f", "parameters": {}}}]
    body = {**CHAT_BODY, "tools": tools, **fields}
    tool = Tool()
    script_lines = [*lines, *script(call("1"), FUNCTION_CALL)]
    async with open_app(*script_lines, served_model_name=("m",)) as app:
        app.use(tool)
        message = (await app.post(CHAT, body)).json()["choices"][0]["message"]
        call_id = message["tool_calls"][0]["id"]
        result = {"role": "tool", "tool_call_id": call_id, "content": "from the client"}
        await app.post(CHAT, {**body, "messages": [*CHAT_BODY["messages"], message, result]})
    assert [context.state for context in tool.contexts] == [None, state]


async def test_a_browser_call_is_an_item_of_its_own(open_app: Any) -> None:
    async with open_app(*script(call('{"query": "q"}', "browser.search"), final())) as app:
        app.use(Tool(SEARCH))
        lines = [{"type": "web_search"}]
        made = (await app.post(RESPONSES, {"input": "q", "tools": lines})).json()
    assert kinds(made["output"])[0] == "web_search_call"
