"""Fields of requests that the server does not know: accepted, and named in the log."""

import logging
from typing import Any

import pytest

ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
MESSAGES = [{"role": "user", "content": "hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {"input": "hi"},
    "/v1/responses/compact": {"model": "scripted", "input": "hi"},
    "/v1/responses/input_tokens": {"input": "hi"},
    "/v1/chat/completions": {"model": "scripted", "messages": MESSAGES},
    "/v1/completions": {"model": "scripted", "prompt": "hi"},
    "/v1/conversations": {},
    "/v1/containers": {"name": "x"},
    "/tokenize": {"prompt": "hi"},
    "/detokenize": {"tokens": [1]},
}


@pytest.mark.parametrize("path", BODIES)
async def test_an_unknown_field_is_accepted_and_named_in_the_log(
    open_app: Any, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.schemas.base")
    # Each name is logged once in a process.
    name = f"novel{path.replace('/', '_')}"
    async with open_app(ANSWER) as app:
        answer = await app.post(path, BODIES[path] | {name: "secret"})
    assert answer.status_code == 200, answer.text
    assert f"unknown field: '{name}'" in caplog.text
    assert "secret" not in caplog.text
