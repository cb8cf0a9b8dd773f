"""`include: ["reasoning.encrypted_content"]`: stateless clients send reasoning back sealed."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from server.store.responses.sql import SqlStore
from tests.server.routes.conftest import expanding_seal

CALL = (
    "<|channel|>analysis<|message|>A secret plan.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
ANSWER = "<|channel|>final<|message|>Done.<|return|>"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
STATELESS = {
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "tools": [TOOL],
}

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


async def first_turn(app: Any, **options: Any) -> list[dict[str, Any]]:
    answer = await app.post("/v1/responses", {"input": "hi", **STATELESS}, **options)
    assert answer.status_code == 200, answer.text
    output: list[dict[str, Any]] = answer.json()["output"]
    return output


async def second_turn(app: Any, output: list[dict[str, Any]], **options: Any) -> Any:
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "1"}
    input_items = [{"role": "user", "content": "hi"}, *output, result]
    return await app.post("/v1/responses", {"input": input_items, **STATELESS}, **options)


@pytest.mark.parametrize("raw", ["show", "hide"])
async def test_what_comes_back_sealed_repeats_the_sampled_tokens(
    open_app: OpenApp, raw: str
) -> None:
    async with open_app(
        {"prompt_contains": "functions.f to=assistant", "completion": ANSWER},
        {"prompt_contains": None, "completion": CALL},
        raw_reasoning=raw,
    ) as app:
        reasoning, call = await first_turn(app)
        assert "secret" not in reasoning["encrypted_content"]
        assert bool(reasoning["content"]) == (raw == "show")
        bare = {name: reasoning[name] for name in ("type", "summary", "encrypted_content")}
        answer = await second_turn(app, [bare, call])
    assert answer.status_code == 200, answer.text
    # The call's sampled tokens are not stored, so it is rendered again.
    assert app.prompts[1].startswith(app.prompts[0] + CALL.partition("<|end|>")[0] + "<|end|>")


async def test_what_one_gateway_sealed_another_opens(open_app: OpenApp, tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = []
    for _ in range(2):
        store = SqlStore(f"sqlite:///{tmp_path}/store.db")
        await store.start()
        async with open_app(CALL, store=store) as app:
            turns = turns or await first_turn(app)
            answer = await second_turn(app, turns)
        assert answer.status_code == 200, answer.text
        await store.stop()


async def test_a_stream_seals_the_item_that_is_done(open_app: OpenApp) -> None:
    async with open_app(CALL) as app:
        answer = await app.post("/v1/responses", {"input": "hi", "stream": True, **STATELESS})
    events = [
        json.loads(line.removeprefix("data: "))
        for line in answer.text.splitlines()
        if line.startswith("data: {")
    ]
    done = next(event for event in events if event["type"] == "response.output_item.done")
    added = next(event for event in events if event["type"] == "response.output_item.added")
    assert "encrypted_content" not in added["item"]
    assert done["item"]["encrypted_content"]
    assert events[-1]["response"]["output"][0] == done["item"]


async def test_nothing_is_sealed_unless_requested(open_app: OpenApp) -> None:
    async with open_app(CALL) as app:
        answer = await app.post("/v1/responses", {"input": "hi", "tools": [TOOL]})
    assert "encrypted_content" not in answer.json()["output"][0]


async def test_null_is_no_seal(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        reasoning: Any = {"type": "reasoning", "summary": [], "encrypted_content": None}
        body = {"input": [{"role": "user", "content": "hi"}, reasoning], "store": False}
        assert (await app.post("/v1/responses", body)).status_code == 200


@pytest.mark.parametrize("change", [lambda seal: seal[:-4] + "AAA=", lambda _: "x", lambda _: 1])
async def test_a_changed_seal_is_refused(open_app: OpenApp, change: Any) -> None:
    async with open_app(CALL) as app:
        reasoning, call = await first_turn(app)
        broken = {**reasoning, "encrypted_content": change(reasoning["encrypted_content"])}
        answer = await second_turn(app, [broken, call])
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input.1.encrypted_content"


async def test_another_keys_seal_is_refused(open_app: OpenApp) -> None:
    async with open_app(CALL, api_key=("a", "b")) as app:
        mine, other = ({"authorization": f"Bearer {key}"} for key in "ab")
        output = await first_turn(app, headers=mine)
        assert (await second_turn(app, output, headers=mine)).status_code == 200
        refused = await second_turn(app, output, headers=other)
    assert refused.json()["error"]["code"] == "invalid_encrypted_content"


async def test_a_changed_text_replaces_the_seal(open_app: OpenApp) -> None:
    async with open_app(CALL) as app:
        reasoning, call = await first_turn(app)
        text = {"type": "reasoning_text", "text": "Another thought."}
        await second_turn(app, [{**reasoning, "content": [text]}, call])
    assert "Another thought." in app.prompts[1]
    assert "A secret plan." not in app.prompts[1]


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/responses", "input"), ("/v1/conversations", "items")]
)
async def test_a_seal_that_holds_more_than_the_context_is_refused(
    open_app: OpenApp, path: str, field: str
) -> None:
    async with open_app(ANSWER) as app:
        seal = expanding_seal(app)
        reasoning = {"type": "reasoning", "summary": [], "encrypted_content": seal}
        answer = await app.post(path, {field: [{"role": "user", "content": "hi"}, reasoning]})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == f"{field}.1.encrypted_content"
