"""`/v1/completions` through the whole application, checked with the SDK's own types."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from openai.types import Completion

from harmony.tokenizer import decode, encode, encode_with_control
from tests.server.routes.conftest import RecordingBackend

PATH = "/v1/completions"
TEXT = "one two three"


def request(**fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "prompt": "count: "} | fields


def completion(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    Completion.model_validate(body, strict=True)
    return body


def texts(answer: httpx.Response) -> list[str]:
    choices = completion(answer)["choices"]
    assert [choice["index"] for choice in choices] == list(range(len(choices)))
    return [choice["text"] for choice in choices]


def chunks(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def test_the_engine_gets_the_text_and_nothing_else(open_app: Any) -> None:
    async with open_app(TEXT) as app:
        body = completion(await app.post(PATH, request()))
    (engine,) = app.backend.requests
    assert engine.prompt_token_ids == tuple(encode("count: "))
    assert engine.max_tokens == 16
    assert (engine.grammar, engine.phases) == (None, ())
    (choice,) = body["choices"]
    assert choice["text"] == TEXT
    assert choice["finish_reason"] == "length"
    assert body["usage"]["prompt_tokens"] == len(encode("count: "))
    assert body["usage"]["completion_tokens"] == len(encode(TEXT))


@pytest.mark.parametrize("n", [1, 2])
async def test_an_answer_that_the_server_ends_is_an_error(open_app: Any, n: int) -> None:
    async with open_app({"completion": " word" * 5000, "delay_ms": 1}) as app:
        bodies = [request(n=n, max_tokens=5000, stream=stream) for stream in (False, True)]
        asking = [asyncio.ensure_future(app.post(PATH, body)) for body in bodies]
        await app.backend.until_running(2 * n)
        await app.app.state.context.gateway.runs.close()
        whole, streamed = await asyncio.gather(*asking)
    assert whole.status_code == 503
    assert whole.json()["error"]["code"] == "server_unavailable"
    assert chunks(streamed)[-1] == whole.json()


async def test_the_engine_gets_the_priority(open_app: Any) -> None:
    async with open_app(TEXT) as app:
        completion(await app.post(PATH, request(priority=-3)))
    assert app.backend.requests[0].priority == -3


@pytest.mark.parametrize(
    ("fields", "param"), [({"n": 3}, "n"), ({"best_of": 3}, "n"), ({"prompt": ["a"] * 3}, "prompt")]
)
async def test_more_samples_than_slots_exist_are_refused(
    open_app: Any, fields: dict[str, Any], param: str
) -> None:
    async with open_app(TEXT, max_running=1, max_waiting=1) as app:
        answer = await app.post(PATH, request(**fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_harmony_is_not_read_but_shown(open_app: Any) -> None:
    raw_text = "<|channel|>final<|message|>Yes"
    async with open_app(f"{raw_text}<|return|>") as app:
        (choice,) = completion(await app.post(PATH, request()))["choices"]
    assert choice["text"] == raw_text
    assert choice["finish_reason"] == "stop"


async def test_control_tokens_are_text_unless_they_are_meant(open_app: Any) -> None:
    async with open_app(TEXT) as app:
        for meant in (False, True):
            await app.post(PATH, request(prompt="<|start|>", control_tokens=meant))
    text, token = (engine.prompt_token_ids for engine in app.backend.requests)
    assert text == tuple(encode("<|start|>"))
    assert token == tuple(encode_with_control("<|start|>"))


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ([1, 2, 200006], [(1, 2, 200006)]),
        ([[1], [2, 3]], [(1,), (2, 3)]),
        (["a", "b"], [tuple(encode("a")), tuple(encode("b"))]),
    ],
)
async def test_prompts_come_in_all_forms(open_app: Any, prompt: Any, ids: Any) -> None:
    async with open_app(TEXT) as app:
        assert texts(await app.post(PATH, request(prompt=prompt))) == [TEXT] * len(ids)
    assert [engine.prompt_token_ids for engine in app.backend.requests] == ids


async def test_each_prompt_has_its_choices_and_is_counted_once(open_app: Any) -> None:
    a = {"completion": "A", "prompt_contains": "a"}
    async with open_app(a, "B") as app:
        answer = await app.post(PATH, request(prompt=["a", "b"], n=2, seed=1))
    assert texts(answer) == ["A", "A", "B", "B"]
    assert [engine.seed for engine in app.backend.requests] == [1, 2, 1, 2]
    assert answer.json()["usage"]["prompt_tokens"] == 2
    assert answer.json()["usage"]["completion_tokens"] == 4


async def test_the_best_samples_are_returned_and_all_are_counted(open_app: Any) -> None:
    async with open_app(TEXT) as app:
        answer = await app.post(PATH, request(prompt=["a", "b"], n=1, best_of=3))
    assert texts(answer) == [TEXT, TEXT]
    assert answer.json()["choices"][0]["logprobs"] is None
    assert len(app.backend.requests) == 6
    assert answer.json()["usage"]["completion_tokens"] == 6 * len(encode(TEXT))
    assert {engine.logprobs for engine in app.backend.requests} == {0}


async def test_echo_begins_with_the_prompt(open_app: Any) -> None:
    async with open_app(TEXT) as app:
        ids = encode_with_control("<|start|>user")
        answer = await app.post(PATH, request(prompt=[encode("a"), ids], echo=True))
    assert texts(answer) == [f"a{TEXT}", f"<|start|>user{TEXT}"]


async def test_stop_strings_end_the_text(open_app: Any) -> None:
    async with open_app(TEXT) as app:
        (choice,) = completion(await app.post(PATH, request(stop=" three")))["choices"]
    assert choice["text"] == "one two"
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"logprobs": 1}, "logprobs"), ({"best_of": 2}, "best_of")],
)
async def test_an_engine_without_logprobs_names_the_field_that_needs_them(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], param: str
) -> None:
    async with open_app(TEXT) as app:
        monkeypatch.setattr(RecordingBackend, "info", replace(app.backend.info, features=set()))
        answer = await app.post(PATH, request(**fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_logprobs_in_the_legacy_form(open_app: Any) -> None:
    raw_text = "naïve 日本𓀀"
    async with open_app(raw_text) as app:
        (choice,) = completion(await app.post(PATH, request(logprobs=1)))["choices"]
    shown = choice["logprobs"]
    assert len({len(entries) for entries in shown.values()}) == 1
    assert len(shown["tokens"]) == len(encode(raw_text))
    assert shown["token_logprobs"] == [0.0] * len(encode(raw_text))
    assert list(shown["top_logprobs"][0].values()) == [0.0]
    for token, offset in zip(shown["tokens"], shown["text_offset"], strict=True):
        assert token.startswith("bytes:\\x") or raw_text.startswith(token, offset)


async def test_offsets_of_a_text_that_waited_for_a_stop_string(open_app: Any) -> None:
    async with open_app("🪩🪩yz") as app:
        body = request(logprobs=0, stop=["🪩🪩x"])
        (choice,) = completion(await app.post(PATH, body))["choices"]
    offsets = dict(
        zip(choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"], strict=True)
    )
    assert choice["text"] == "🪩🪩yz"
    assert offsets["yz"] == 2


async def test_a_stream_joins_to_the_whole(open_app: Any) -> None:
    options = {"include_usage": True}
    async with open_app(TEXT) as app:
        whole = completion(await app.post(PATH, request(n=2, echo=True)))
        body = request(n=2, echo=True, stream=True, stream_options=options)
        *emitted, last = chunks(await app.post(PATH, body))
        plain = chunks(await app.post(PATH, request(stream=True)))
    for index in range(2):
        own = [c["choices"][0] for c in emitted if c["choices"][0]["index"] == index]
        assert "".join(choice["text"] for choice in own) == whole["choices"][index]["text"]
        assert own[-1]["finish_reason"] == "length"
    assert all(chunk["usage"] is None for chunk in emitted)
    assert last["usage"] == whole["usage"]
    assert all("usage" not in chunk and chunk["choices"] for chunk in plain)


async def test_token_ids_are_returned_on_request(open_app: Any) -> None:
    async with open_app(f"{TEXT}<|return|>") as app:
        (choice,) = completion(await app.post(PATH, request(return_token_ids=True)))["choices"]
    assert decode(choice["prompt_token_ids"]) == "count: "
    assert decode(choice["token_ids"]) == f"{TEXT}<|return|>"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": {"text": "a"}}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt.1"),
        ({"prompt": ["a", 1]}, "prompt.1"),
        ({"prompt": [1, "a"]}, "prompt.1"),
        ({"prompt": [1, 201_088]}, "prompt.1"),
        ({"prompt": [[1], [True]]}, "prompt.1.0"),
        ({"prompt": ["a"] * 100, "n": 2}, "prompt"),
        ({"n": 2, "best_of": 1}, "best_of"),
        ({"n": 1, "best_of": 2, "stream": True}, "best_of"),
        ({"echo": True, "logprobs": 1}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"suffix": "end"}, "suffix"),
    ],
)
async def test_a_bad_field_is_named(open_app: Any, fields: dict[str, Any], param: str) -> None:
    async with open_app(TEXT) as app:
        answer = await app.post(PATH, request(**fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert app.backend.requests == []


async def test_a_server_that_hides_reasoning_completes_nothing_raw(open_app: Any) -> None:
    async with open_app(TEXT, raw_reasoning="hide") as app:
        answer = await app.post(PATH, request())
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "raw_reasoning_hidden"
    assert "--raw-reasoning hide" in answer.json()["error"]["message"]


async def test_an_engine_that_fails_is_not_the_clients_fault(open_app: Any) -> None:
    async with open_app({"completion": TEXT, "prompt_contains": "other"}) as app:
        whole = await app.post(PATH, request())
        *_, last = chunks(await app.post(PATH, request(stream=True)))
    assert whole.status_code == 500
    assert "no matching line" in last["error"]["message"]
