"""Default token limits and the repetition guard, through each API."""

import logging
from typing import Any

import pytest

from harmony.tokenizer import encode_with_control
from tests.server.routes.conftest import App, OpenApp

ANSWER = "<|channel|>final<|message|>One two three<|return|>"
ANALYSIS = "<|channel|>analysis<|message|>"
LONG = "<|channel|>final<|message|>" + "".join(f" {number}" for number in range(900))
LOOPS: tuple[dict[str, Any], ...] = (
    {"prompt_contains": " again<|end|><|start|>assistant", "completion": ANSWER},
    {"completion": ANALYSIS + " again" * 1_000, "tokens_per_chunk": 10},
)
CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


async def ask(app: App, **fields: Any) -> dict[str, Any]:
    answer = await app.post("/v1/responses", {"input": "Hi", **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def chat(app: App, **fields: Any) -> dict[str, Any]:
    answer = await app.post("/v1/chat/completions", {**CHAT, **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


# The default limit


async def test_a_response_without_a_limit_ends_at_the_servers(open_app: OpenApp) -> None:
    async with open_app(LONG, default_max_output_tokens=10) as app:
        response = await ask(app)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 10
    # As the request had it: the field is the client's limit.
    assert response["max_output_tokens"] is None


async def test_a_chat_completion_without_a_limit_ends_at_the_servers(open_app: OpenApp) -> None:
    async with open_app(LONG, default_max_output_tokens=10) as app:
        completion = await chat(app, n=2)
    assert [choice["finish_reason"] for choice in completion["choices"]] == ["length", "length"]
    assert completion["usage"]["completion_tokens"] == 20


async def test_a_limit_of_the_requests_counts_alone(open_app: OpenApp) -> None:
    async with open_app(LONG, default_max_output_tokens=10) as app:
        assert (await ask(app, max_output_tokens=20))["usage"]["output_tokens"] == 20
        await chat(app, max_completion_tokens=30)
        assert app.backend.requests[-1].max_tokens == 30


async def test_a_legacy_completion_keeps_its_own_default(open_app: OpenApp) -> None:
    async with open_app(LONG, default_max_output_tokens=10) as app:
        await app.post("/v1/completions", {"model": "scripted", "prompt": "Hi"})
        assert app.backend.requests[-1].max_tokens == 16


async def test_a_rendered_prompt_comes_with_the_limit(open_app: OpenApp) -> None:
    async with open_app(LONG, default_max_output_tokens=10) as app:
        rendered = (await app.post("/v1/responses/render", {"input": "Hi"})).json()
    assert rendered["max_tokens"] == 10


async def test_without_a_default_the_limit_is_the_context(open_app: OpenApp) -> None:
    async with open_app(LONG) as app:
        await ask(app)
        (request,) = app.backend.requests
    assert request.max_tokens == 131_072 - len(request.prompt_token_ids)


# The repetition guard


async def test_a_response_whose_reasoning_loops_has_its_answer(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "server.generation.gateway")
    async with open_app(*LOOPS) as app:
        response = await ask(app, return_token_ids=True)
        assert app.app.state.context.gateway.loops == {"analysis": 1}
    reasoning, message = response["output"]
    assert (response["status"], reasoning["status"]) == ("completed", "completed")
    assert message["content"][0]["text"] == "One two three"
    (record,) = [record.getMessage() for record in caplog.records]
    assert "repetition: analysis was closed (1 so far)" in record
    assert "again" not in record
    reasoning_tokens = encode_with_control(ANALYSIS + " again" * 573)
    assert response["usage"]["output_tokens"] == len(reasoning_tokens) + len(
        encode_with_control(ANSWER)
    )
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 573


async def test_a_summary_whose_reasoning_loops_is_written(open_app: OpenApp) -> None:
    async with open_app(*LOOPS) as app:
        answer = await app.post("/v1/responses/compact", {"model": "scripted", "input": "Hi"})
        assert app.app.state.context.gateway.loops == {"analysis": 1}
    assert answer.status_code == 200
    assert answer.json()["usage"]["output_tokens_details"]["reasoning_tokens"] == 573


async def test_each_choice_has_its_own_guard(open_app: OpenApp) -> None:
    async with open_app(*LOOPS) as app:
        completion = await chat(app, n=3)
        assert app.app.state.context.gateway.loops == {"analysis": 3}
        assert len(app.backend.requests) == 6
    assert [choice["message"]["content"] for choice in completion["choices"]] == [
        "One two three"
    ] * 3


@pytest.mark.parametrize("budget", [None, 2_000])
async def test_what_follows_closed_reasoning_keeps_to_the_requests_grammar(
    open_app: OpenApp, budget: int | None
) -> None:
    async with open_app(*LOOPS) as app:
        await ask(app, tools=[TOOL], tool_choice="auto", reasoning={"max_tokens": budget})
        first, second = app.backend.requests
    assert first.grammar is not None
    assert second.grammar is not None
    assert "reasoning" in first.grammar
    assert "reasoning" not in second.grammar
    assert "start: (preamble)* last" in second.grammar
    assert first.phases == second.phases


async def test_penalties_still_hold_for_the_answer_alone(open_app: OpenApp) -> None:
    async with open_app(*LOOPS) as app:
        await chat(app, presence_penalty=1)
        first, second = app.backend.requests
    assert second.sampling.presence_penalty == 0
    (phase,) = second.phases
    assert phase == first.phases[0]
    assert phase.params.presence_penalty == 1


async def test_the_guard_can_be_switched_off(open_app: OpenApp) -> None:
    async with open_app(*LOOPS, repetition_guard="off") as app:
        response = await ask(app)
        assert len(app.backend.requests) == 1
        assert app.app.state.context.gateway.loops == {}
    assert response["status"] == "incomplete"


async def test_a_raw_prompt_is_never_cut(open_app: OpenApp) -> None:
    async with open_app(*LOOPS) as app:
        body = {"model": "scripted", "prompt": "Hi", "max_tokens": 900}
        answer = (await app.post("/v1/completions", body)).json()
        assert len(app.backend.requests) == 1
    assert answer["usage"]["completion_tokens"] == 900


async def test_a_loop_in_an_answer_is_logged_and_not_cut(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "server.generation.gateway")
    zeros = "0," * 2_000
    async with open_app(f"<|channel|>final<|message|>{zeros}<|return|>") as app:
        completion = await chat(app)
    assert completion["choices"][0]["message"]["content"] == zeros
    (record,) = [record.getMessage() for record in caplog.records]
    assert "repetition: final goes on (1 so far)" in record


async def test_a_stored_response_that_was_closed_can_be_continued(open_app: OpenApp) -> None:
    async with open_app(*LOOPS) as app:
        first = await ask(app)
        second = await ask(app, previous_response_id=first["id"])
    assert second["output"][-1]["content"][0]["text"] == "One two three"
