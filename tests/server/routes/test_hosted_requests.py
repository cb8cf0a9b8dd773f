"""Requests that name hosted tools, through the whole server, without their calls."""

from typing import Any

import pytest

from tests.server.tools.sample_tools import Calculator, Library

ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Hi"}]
PATHS: dict[str, dict[str, Any]] = {
    RESPONSES: {"input": "Hi"},
    CHAT: {"model": "m", "messages": MESSAGES},
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_session_knows_the_id_of_its_answer(open_app: Any, path: str) -> None:
    tool = Calculator()
    async with open_app(ANSWER, served_model_name=("m",)) as app:
        app.use(tool)
        answer = await app.post(path, {**PATHS[path], "tools": [CODE]})
    assert [session.context.answer_id for session in tool.opened] == [answer.json()["id"]]
    assert "## python\n\nUse this tool" in app.prompts[0]


@pytest.mark.parametrize("path", PATHS)
async def test_a_tool_that_cannot_run_is_a_400_with_the_reason(open_app: Any, path: str) -> None:
    async with open_app(ANSWER, served_model_name=("m",)) as app:
        app.use(Calculator(problem="there is no sandbox"))
        answer = await app.post(path, {**PATHS[path], "tools": [CODE]})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (
        400,
        "tools.0",
        "tool_unavailable",
    )
    assert "there is no sandbox" in error["message"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_rendered_prompt_closes_its_sessions(open_app: Any, path: str) -> None:
    tool = Calculator()
    async with open_app(served_model_name=("m",)) as app:
        app.use(tool)
        answer = await app.post(f"{path}/render", {**PATHS[path], "tools": [CODE]})
    assert "stateful Jupyter notebook" in answer.json()["text"]
    assert [session.closed for session in tool.opened] == [1]


async def test_a_rendered_record_closes_its_sessions(open_app: Any) -> None:
    tool = Calculator()
    async with open_app(ANSWER) as app:
        app.use(tool)
        made = (await app.post(RESPONSES, {"input": "Hi", "tools": [CODE]})).json()
        path = f"{RESPONSES}/{made['id']}"
        answer = await app.client.get(path, params={"include[]": "gpt_oss:record"})
    assert answer.json()["gpt_oss:record"]["prompt_token_ids"]
    assert [session.closed for session in tool.opened] == [1, 1]


async def test_counted_tokens_include_the_declarations_of_hosted_tools(open_app: Any) -> None:
    tool = Library()
    async with open_app(served_model_name=("m",)) as app:
        app.use(tool)
        path = f"{RESPONSES}/input_tokens"
        plain = (await app.post(path, {"input": "Hi"})).json()["input_tokens"]
        body = {"input": "Hi", "tools": [{"type": "web_search"}]}
        declared = (await app.post(path, body)).json()["input_tokens"]
    assert declared > plain + 50
    assert [session.closed for session in tool.opened] == [1]
