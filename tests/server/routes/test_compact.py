"""`/v1/responses/compact`, and continuing from its output."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from openai.types.responses import CompactedResponse

from adapters.base import GenerationRequest
from server.inbound.grammar import Masking, answer_only
from server.responses.compaction import SUMMARY_HEADING, compaction_object
from server.routes import compact
from server.store.responses.memory import MemoryStore

ANSWER = "<|channel|>final<|message|>Lyon it is.<|return|>"
SUMMARY = (
    "<|channel|>analysis<|message|>Sum up.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>The user goes to Lyon.<|return|>"
)
LINES = (
    {"prompt_contains": "Write a summary", "completion": SUMMARY},
    {"prompt_contains": None, "completion": ANSWER},
)
PATH = "/v1/responses/compact"

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


async def compacted(app: Any, **body: Any) -> dict[str, Any]:
    answer = await app.post(PATH, {"model": "scripted"} | body)
    assert answer.status_code == 200, answer.text
    summary_object: dict[str, Any] = answer.json()
    # The SDK's type has no user messages, which the specification's own example has.
    others = [item for item in summary_object["output"] if item["type"] != "message"]
    CompactedResponse.model_validate({**summary_object, "output": others})
    return summary_object


async def test_the_users_messages_stay_and_a_sealed_summary_follows(open_app: OpenApp) -> None:
    messages = [
        {"role": "user", "content": "Where to?"},
        {"role": "assistant", "content": "Lyon?"},
        {"role": "user", "content": "Yes."},
    ]
    async with open_app(*LINES) as app:
        summary_object = await compacted(app, input=messages, instructions="Plan trips.")
    assert summary_object["object"] == "response.compaction"
    assert [item["type"] for item in summary_object["output"]] == [
        "message",
        "message",
        "compaction",
    ]
    assert [item["content"][0]["text"] for item in summary_object["output"][:2]] == [
        "Where to?",
        "Yes.",
    ]
    assert "Lyon" not in summary_object["output"][2]["encrypted_content"]
    assert summary_object["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    assert "Plan trips." in app.prompts[0]


async def test_the_users_messages_are_collected_beside_the_event_loop(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watched(*arguments: Any) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return compaction_object(*arguments)

    monkeypatch.setattr(compact, "compaction_object", watched)
    async with open_app(SUMMARY) as app:
        await compacted(app, input="Hi")
    (thread,) = threads
    assert thread != threading.get_ident()


async def test_a_stored_chain_is_compacted(open_app: OpenApp) -> None:
    async with open_app(*LINES) as app:
        first = (await app.post("/v1/responses", {"input": "Where to?"})).json()
        summary_object = await compacted(app, previous_response_id=first["id"])
    assert "Lyon it is." in app.prompts[1]
    assert [item["type"] for item in summary_object["output"]] == ["message", "compaction"]


@pytest.mark.parametrize("store", [True, False])
async def test_the_model_goes_on_from_the_summary(open_app: OpenApp, store: bool) -> None:
    async with open_app(*LINES) as app:
        summary_object = await compacted(app, input="Where to?")
        follow_up = [*summary_object["output"], {"role": "user", "content": "When?"}]
        answer = await app.post("/v1/responses", {"input": follow_up, "store": store})
        assert answer.status_code == 200, answer.text
        if store:
            previous = {"previous_response_id": answer.json()["id"], "input": "And then?"}
            assert (await app.post("/v1/responses", previous)).status_code == 200
    for prompt in app.prompts[1:]:
        assert (
            f"<|channel|>commentary<|message|>{SUMMARY_HEADING}The user goes to Lyon.<|end|>"
            in prompt
        )


@pytest.mark.parametrize("sealed", ["x", None, 1])
async def test_a_changed_summary_is_refused(open_app: OpenApp, sealed: Any) -> None:
    item = {"type": "compaction", "encrypted_content": sealed}
    async with open_app(*LINES) as app:
        answer = await app.post("/v1/responses", {"input": [item]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input.0.encrypted_content"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "hi"}, "model"),
        ({"model": "scripted", "input": 1}, "input"),
        ({"model": "scripted"}, "input"),
        ({"model": "scripted", "input": []}, "input"),
    ],
)
async def test_a_bad_request_is_named(open_app: OpenApp, body: Any, param: str) -> None:
    async with open_app(*LINES) as app:
        answer = await app.post(PATH, body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_a_failure_is_an_error(open_app: OpenApp) -> None:
    async with open_app({"prompt_contains": "never said", "completion": ANSWER}) as app:
        answer = await app.post(PATH, {"model": "scripted", "input": "hi"})
    assert answer.status_code == 500


async def test_a_truncated_summary_is_an_error(open_app: OpenApp) -> None:
    async with open_app("<|channel|>final<|message|>The user goes") as app:
        answer = await app.post(PATH, {"model": "scripted", "input": "hi"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert answer.json()["error"]["param"] == "input"


@pytest.mark.parametrize(
    "scripted_text",
    [
        pytest.param("<|channel|>final<|message|> <|return|>", id="nothing"),
        pytest.param("<|channel|>analysis<|message|>Sum up.<|end|><|return|>", id="reasoning"),
        pytest.param(
            "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant"
            "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
            id="a call",
        ),
    ],
)
async def test_an_empty_summary_is_tried_twice(open_app: OpenApp, scripted_text: str) -> None:
    store = MemoryStore()
    async with open_app(scripted_text, store=store) as app:
        answer = await app.post(PATH, {"model": "scripted", "input": "hi"})
        await app.until_idle()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "no_summary")
    assert len(app.prompts) == 2
    assert store._responses == {}


async def test_the_second_attempt_may_succeed(open_app: OpenApp) -> None:
    async with open_app("<|channel|>final<|message|> <|return|>", SUMMARY) as app:
        generate = app.backend.generate

        async def improving(request: GenerationRequest) -> Any:
            try:
                async for chunk in generate(request):
                    yield chunk
            finally:
                app.backend._lines = app.backend._lines[1:]

        app.backend.generate = improving
        summary_object = await compacted(app, input="hi")
    assert summary_object["output"][-1]["type"] == "compaction"
    assert len(app.prompts) == 2


@pytest.mark.parametrize("constrain", [None, "always", "needed"])
async def test_a_grammar_allows_only_a_summary(open_app: OpenApp, constrain: str | None) -> None:
    async with open_app(SUMMARY, constrain=constrain) as app:
        await compacted(app, input="hi", instructions="Call tools.")
    (request,) = app.backend.requests
    assert request.grammar == answer_only(Masking()).grammar


async def test_a_summary_needs_no_masks(open_app: OpenApp) -> None:
    async with open_app(SUMMARY, constrain="never") as app:
        await compacted(app, input="hi")
    assert app.backend.requests[0].grammar is None


async def test_a_summary_that_the_server_ends_can_be_requested_again(
    open_app: OpenApp,
) -> None:
    slow = {"completion": ANSWER, "delay_ms": 60_000}
    async with open_app(slow) as app:
        pending = asyncio.ensure_future(app.post(PATH, {"model": "scripted", "input": "hi"}))
        await app.backend.until_running(1)
        app.app.state.context.gateway.runs.cancel()
        answer = await pending
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "server_unavailable")
