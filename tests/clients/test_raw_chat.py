"""The lines of a chat stream as they are sent, read without a client library."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletionChunk

START = "<|start|>assistant"
COMPLETION = (
    "<|channel|>analysis<|message|>Ask 天気.<|end|>"
    f"{START}<|channel|>commentary<|message|>Looking it up 😀.<|end|>"
    f"{START}<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
REQUEST: dict[str, Any] = {
    "model": "gpt-oss-test",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    script = [{"prompt_contains": "hi", "completion": COMPLETION}]
    return serve(script, "--served-model-name", "gpt-oss-test", "--api-key", "secret")


def test_every_event_is_one_line_of_data(base_url: str) -> None:
    headers = {"authorization": "Bearer secret"}
    url = f"{base_url}/chat/completions"
    with httpx.stream("POST", url, json=REQUEST, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"]
        lines = list(answer.iter_lines())
    assert lines[1::2] == [""] * (len(lines) // 2)
    *events, done = [line.removeprefix("data: ") for line in lines[::2]]
    assert done == "[DONE]"
    chunks = [json.loads(event) for event in events]
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk, strict=True)
        assert (chunk["id"], chunk["created"]) == (chunks[0]["id"], chunks[0]["created"])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0] == {"role": "assistant", "content": None, "refusal": None}
    # Each delta has one field, in the order reasoning, preamble, call.
    kinds = [next(iter(delta), "end") for delta in deltas[1:]]
    assert list(dict.fromkeys(kinds)) == ["reasoning", "content", "tool_calls", "end"]
    assert kinds == sorted(kinds, key=["reasoning", "content", "tool_calls", "end"].index)
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "Ask 天気."
    assert "".join(delta.get("content") or "" for delta in deltas) == "Looking it up 😀."
    assert chunks[-1]["usage"]["total_tokens"] > 0


def test_a_wrong_key_gets_no_stream(base_url: str) -> None:
    answer = httpx.post(f"{base_url}/chat/completions", json=REQUEST)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
