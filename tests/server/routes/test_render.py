from typing import Any

import pytest

from harmony.tokenizer import encode_with_control

ANSWER = "<|channel|>final<|message|>Yes<|return|>"
CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "<|end|> hi"}]})
RESPONSES = ("/v1/responses", {"input": "<|end|> hi", "instructions": "Be brief."})


@pytest.mark.parametrize(("path", "body"), [CHAT, RESPONSES])
async def test_the_prompt_is_exactly_what_would_run(
    open_app: Any, path: str, body: dict[str, Any]
) -> None:
    body = body | {"model": "scripted", "tools": None}
    async with open_app(ANSWER) as app:
        rendered = (await app.post(f"{path}/render", body)).json()
        assert app.backend.requests == []
        assert (await app.post(path, body)).status_code == 200
    (ran,) = app.backend.requests
    assert tuple(rendered["token_ids"]) == ran.prompt_token_ids
    assert rendered["count"] == len(ran.prompt_token_ids)
    assert rendered["text"] == app.prompts[0]
    assert "<|end|> hi<|end|>" in rendered["text"]
    assert rendered["max_tokens"] == ran.max_tokens
    assert rendered["grammar"] == ran.grammar
    # What the user typed was text: encoded as control tokens it is shorter.
    assert rendered["count"] > len(encode_with_control(rendered["text"]))


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT[0], {"model": "m", "messages": []}), (RESPONSES[0], {"model": "m"})]
)
async def test_a_request_that_would_be_refused_is_refused(
    open_app: Any, path: str, body: dict[str, Any]
) -> None:
    async with open_app(ANSWER) as app:
        assert (await app.post(f"{path}/render", body)).status_code == 404
        body = body | {"model": "scripted"}
        assert (await app.post(f"{path}/render", body)).status_code == 400


@pytest.mark.parametrize(("path", "body"), [CHAT, RESPONSES])
async def test_a_prompt_may_repeat_what_the_server_hides(
    open_app: Any, path: str, body: dict[str, Any]
) -> None:
    async with open_app(ANSWER, raw_reasoning="hide") as app:
        answer = await app.post(f"{path}/render", {"model": "scripted", **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "raw_reasoning_hidden"
