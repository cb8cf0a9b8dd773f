"""The whole server with vLLM in its process; runs where vLLM is installed (`make test-vllm`)."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from harmony.vocab import STOP_TOKENS
from tests.adapters.vllm_process import ENGINE_ARGUMENTS, Process
from tests.ports import free_port

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")

FORM = {
    "type": "object",
    "properties": {"fine": {"type": "boolean"}},
    "required": ["fine"],
    "additionalProperties": False,
}
QUESTION = {"messages": [{"role": "user", "content": "Are you fine?"}]}
# One at a time: what the engine takes next is up to its priorities.
ARGUMENTS = {**ENGINE_ARGUMENTS, "max_num_seqs": "1"}
ALL = int(ENGINE_ARGUMENTS["max_model_len"])
AHEAD = 30
GO_ON = {"prompt": "one", "logit_bias": {str(token_id): -100 for token_id in STOP_TOKENS}}


@pytest.fixture(scope="module")
def server(checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    port = free_port()
    arguments = [f"--engine-arg={name}={value}" for name, value in ARGUMENTS.items()]
    command = [
        *(sys.executable, "-m", "server", "serve", "--backend", "vllm", "--store", "memory"),
        *("--model", str(checkpoint_folder), "--served-model-name", "demo"),
        *("--port", str(port), *arguments),
    ]
    log = tmp_path_factory.mktemp("served") / "server.log"
    process = Process(command, f"http://127.0.0.1:{port}", log)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()


def complete(server: Process, **fields: Any) -> dict[str, Any]:
    body = {"model": "demo", **QUESTION, **fields}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def formed(**fields: Any) -> dict[str, Any]:
    form = {"name": "form", "strict": True, "schema": FORM}
    response_format = {"type": "json_schema", "json_schema": form}
    return {
        "response_format": response_format,
        "reasoning_effort": "none",
        "max_tokens": 50,
    } | fields


def test_an_answer_keeps_to_its_schema(server: Process) -> None:
    (choice,) = complete(server, **formed())["choices"]
    assert type(json.loads(choice["message"]["content"])["fine"]) is bool
    assert choice["finish_reason"] == "stop"


def test_responses_are_streamed_to_the_last_event(server: Process) -> None:
    form = {"type": "json_schema", "name": "form", "strict": True, "schema": FORM}
    body = {
        "model": "demo",
        "input": "Are you fine?",
        "stream": True,
        "text": {"format": form},
        "reasoning": {"effort": "none"},
        "max_output_tokens": 50,
    }
    answer = httpx.post(f"{server.url}/v1/responses", json=body, timeout=120)
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if "data: " in line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert events[-1]["type"] == "response.completed"


def test_a_grammar_that_leads_nowhere_is_refused_and_not_logged(server: Process) -> None:
    secret = "marzipan"
    grammar = {"type": "grammar", "syntax": "lark"}
    definition = f'start: "{secret}" x\nx: /[^\\s\\S]/'
    tool = {"type": "custom", "name": "f", "format": {**grammar, "definition": definition}}
    body = {
        "model": "demo",
        "input": "Hi",
        "tools": [tool],
        "tool_choice": "required",
        "reasoning": {"effort": "none"},
        "max_output_tokens": 60,
    }
    answer = httpx.post(f"{server.url}/v1/responses", json=body, timeout=120)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_grammar"
    assert secret not in server.wait_until_logged("LLMatcher error: (withheld)")


async def test_a_lower_priority_is_served_earlier(server: Process) -> None:
    """In the order of the server's log: a client that is slow sees two short answers at once."""
    accepted = asyncio.Semaphore(0)
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:

        def stream(**fields: Any) -> AbstractAsyncContextManager[httpx.Response]:
            body = {"model": "demo", **GO_ON, "stream": True, **fields}
            return client.stream("POST", "/v1/completions", json=body)

        async def ask(priority: int) -> str:
            async with stream(max_tokens=4, priority=priority) as answer:
                assert answer.status_code == 200
                accepted.release()
                await answer.aread()
            return answer.headers["x-request-id"]

        async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
            # Enough to keep the engine from both, however long it takes until they have come.
            ahead = [stream(max_tokens=ALL, priority=-10) for _ in range(AHEAD)]
            answers = [await stack.enter_async_context(each) for each in ahead]
            assert {answer.status_code for answer in answers} == {200}
            lines = answers[0].aiter_lines()
            await anext(lines)
            late, early = (tasks.create_task(ask(priority)) for priority in (5, -5))
            for _ in range(2):
                await accepted.acquire()
        ids = [early.result(), late.result()]
    log = await asyncio.to_thread(server.wait_until_logged, *ids)
    assert log.index(ids[0]) < log.index(ids[1])


def test_an_interrupt_lets_the_answer_finish(server: Process) -> None:
    """Ctrl-C in a terminal reaches every process of the group, the engine's among them."""
    body = {"model": "demo", **QUESTION, "stream": True, "max_tokens": 300, "seed": 1}
    url = f"{server.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=120) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.killpg(server.process.pid, signal.SIGINT)
        rest = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert rest.pop() == "[DONE]"
    chunks = [json.loads(line) for line in rest]
    assert [chunk for chunk in chunks if "error" in chunk] == []
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert reasons[-1] in ("stop", "length")
    assert server.process.wait(120) in (0, -signal.SIGINT, 130)
