"""`/v1/responses/input_tokens`: the prompt's length, without sampling."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from openai.types.responses.input_token_count_response import InputTokenCountResponse

ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
PATH = "/v1/responses/input_tokens"

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


async def test_the_count_is_that_of_the_usage(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        first = (await app.post("/v1/responses", {"input": "hi"})).json()
        body = {
            "input": "And?",
            "previous_response_id": first["id"],
            "tools": [TOOL],
            "instructions": "Be brief.",
            "tool_choice": "required",
        }
        counted = (await app.post(PATH, body)).json()
        assert len(app.prompts) == 1
        created = (await app.post("/v1/responses", body)).json()
    InputTokenCountResponse.model_validate(counted)
    assert counted["input_tokens"] == created["usage"]["input_tokens"]


async def test_a_bad_request_is_refused(open_app: OpenApp) -> None:
    async with open_app(ANSWER, api_key=("k",)) as app:
        assert (await app.post(PATH, {"input": "hi"})).status_code == 401
        headers = {"authorization": "Bearer k"}
        answer = await app.post(PATH, {"input": [{}]}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input.0.role")
        answer = await app.post(PATH, {"input": "hi", "model": "x"}, headers=headers)
        assert answer.status_code == 404


@pytest.mark.parametrize("default_max_output_tokens", [None, 10])
async def test_a_truncated_prompt_is_counted_as_it_is_read(
    open_app: OpenApp, default_max_output_tokens: int | None
) -> None:
    """Two turns leave room for 10 tokens, but not for an eighth of the context."""
    turns = [{"role": "user", "content": "word " * 60_000} for _ in range(3)]
    body = {"input": turns, "truncation": "auto"}
    async with open_app(ANSWER, default_max_output_tokens=default_max_output_tokens) as app:
        counted = (await app.post(PATH, body)).json()
        created = (await app.post("/v1/responses", body)).json()
        alone = (await app.post(PATH, {"input": turns})).json()
    assert counted["input_tokens"] == created["usage"]["input_tokens"] < alone["input_tokens"]


async def test_a_prompt_that_is_too_long_for_the_context_is_counted(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        short = (await app.post(PATH, {"input": "word"})).json()["input_tokens"]
        long = await app.post(PATH, {"input": "word" + " word" * 150_000})
    assert long.json()["input_tokens"] == short + 150_000
