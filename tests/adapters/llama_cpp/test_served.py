"""The whole server before llama.cpp; runs where that is built (`make test-llama-cpp`)."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.adapters import llama_cpp_process
from tests.adapters.vllm_process import Process
from tests.ports import free_port

pytestmark = llama_cpp_process.needed

FORM = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["fine", "so-so"]},
        "marks": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 20},
            "minItems": 2,
            "maxItems": 4,
        },
    },
    "required": ["mood", "marks"],
    "additionalProperties": False,
}
TOOL = {"name": "tell", "description": "Tells.", "strict": True, "parameters": FORM}
# Far from what the model would say: the masks alone keep to the form.
WILD = {"temperature": 2.0, "max_tokens": 400}


@pytest.fixture(scope="module")
def server(engine: Process, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "server", "serve", "--backend", "llama-cpp"),
        *("--backend-url", engine.url, "--store", "memory", "--served-model-name", "demo"),
        *("--port", str(port)),
    ]
    log = tmp_path_factory.mktemp("served") / "server.log"
    process = Process(command, f"http://127.0.0.1:{port}", log)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()


def complete(server: Process, **fields: Any) -> dict[str, Any]:
    question = [{"role": "user", "content": "Are you fine?"}]
    body = {"model": "demo", "messages": question, **WILD, **fields}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    return dict(choice)


def holds(text: str) -> bool:
    answer = json.loads(text)
    marks = answer["marks"]
    whole = all(type(mark) is int and 1 <= mark <= 20 for mark in marks)
    return answer["mood"] in ("fine", "so-so") and 2 <= len(marks) <= 4 and whole


def formed(schema: dict[str, Any] = FORM, **fields: Any) -> dict[str, Any]:
    form = {"name": "form", "strict": True, "schema": schema}
    response_format = {"type": "json_schema", "json_schema": form}
    return {"response_format": response_format, "reasoning_effort": "none"} | fields


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_keeps_to_its_schema(server: Process, seed: int) -> None:
    choice = complete(server, **formed(seed=seed))
    assert choice["finish_reason"] == "stop"
    assert holds(choice["message"]["content"])


@pytest.mark.parametrize("seed", range(5))
def test_no_structural_token_gets_into_an_answers_strings_after_reasoning(
    server: Process, seed: int
) -> None:
    """There the model would rather end: each string is to it the beginning of another message."""
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 20, "maxLength": 30}},
        "required": ["title"],
        "additionalProperties": False,
    }
    choice = complete(server, **formed(schema, reasoning_effort="low", seed=seed, temperature=1.0))
    assert choice["finish_reason"] == "stop"
    assert 20 <= len(json.loads(choice["message"]["content"])["title"]) <= 30


@pytest.mark.parametrize("seed", range(5))
def test_a_call_keeps_to_its_tools_schema(server: Process, seed: int) -> None:
    tools = [{"type": "function", "function": TOOL}]
    choice = complete(
        server, tools=tools, tool_choice="required", reasoning_effort="none", seed=seed
    )
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "tell"
    assert holds(call["function"]["arguments"])


def test_a_reasoning_budget_holds(server: Process) -> None:
    choice = complete(server, reasoning={"max_tokens": 8}, seed=1)
    assert choice["message"]["content"] is not None


def test_what_it_lacks_is_refused_by_name(server: Process) -> None:
    question = [{"role": "user", "content": "Are you fine?"}]
    body = {"model": "demo", "messages": question, "frequency_penalty": 1.0}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120)
    assert answer.status_code == 400
    assert "penalt" in answer.json()["error"]["message"]


def test_responses_are_streamed_to_the_last_event(server: Process) -> None:
    body = {"model": "demo", "input": "Are you fine?", "stream": True, "temperature": 0}
    answer = httpx.post(f"{server.url}/v1/responses", json=body, timeout=120)
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if "data: " in line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert events[-1]["type"] == "response.completed"
