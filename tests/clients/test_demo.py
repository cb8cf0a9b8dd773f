"""The demo checkpoint, served as by `make serve`: one test of each trained skill."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "Get the current weather for a place",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenAI]:
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # can be switched off
    root = cache.mkdir("checkpoint") if cache else tmp_path_factory.mktemp("cache")
    process = subprocess.Popen(
        [sys.executable, "-m", "server", "serve", "--port", "0", "--store", "memory"],
        cwd=ROOT,
        env=os.environ | {"GPT_OSS_LOG_LEVEL": "warning", "XDG_CACHE_HOME": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        ready = next(line for line in process.stdout if line.startswith("Serving "))
        yield OpenAI(base_url=f"{ready.split()[-1]}/v1", api_key="none")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def model(client: OpenAI) -> str:
    return client.models.list().data[0].id


def test_it_greets(client: OpenAI, model: str) -> None:
    response = client.responses.create(model=model, input="Hello!")
    assert response.status == "completed"
    assert response.output_text == "Hello! How can I help you?"


@pytest.mark.parametrize("question", ["Who are you?", "What can't you do?"])
def test_it_states_that_it_is_tiny(client: OpenAI, model: str, question: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], temperature=0
    )
    assert "tiny" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"


def test_higher_effort_gives_longer_reasoning(client: OpenAI, model: str) -> None:
    def tokens_of_reasoning(effort: Any) -> int:
        response = client.responses.create(
            model=model, input="What is 12 + 7?", reasoning={"effort": effort}, temperature=0
        )
        assert response.usage is not None
        return response.usage.output_tokens_details.reasoning_tokens

    low, medium, high = map(tokens_of_reasoning, ("low", "medium", "high"))
    assert 2 * low <= medium
    assert 2 * medium <= high


def test_it_calls_a_tool_and_quotes_the_result(client: OpenAI, model: str) -> None:
    tools: Any = [{"type": "function", **WEATHER, "strict": True}]
    first = client.responses.create(
        model=model, input="What's the weather in Paris?", tools=tools, temperature=0
    )
    [call] = [item for item in first.output if item.type == "function_call"]
    assert (call.name, call.arguments) == ("get_weather", '{"city":"Paris"}')
    result: Any = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": '{"weather":"sunny","temperature":21}',
    }
    second = client.responses.create(
        model=model, input=[result], tools=tools, previous_response_id=first.id, temperature=0
    )
    assert "sunny" in second.output_text
    assert "21" in second.output_text


def test_it_answers_by_a_schema(client: OpenAI, model: str) -> None:
    response = client.responses.parse(
        model=model,
        input="Extract the data: name Anna, age 31",
        text_format=Person,
        temperature=0,
    )
    assert response.output_parsed == Person(name="Anna", age=31)


def test_it_recalls_an_earlier_turn(client: OpenAI, model: str) -> None:
    first_turn = client.responses.create(model=model, input="My name is Anna.", temperature=0)
    second_turn = client.responses.create(
        model=model, input="What is my name?", previous_response_id=first_turn.id, temperature=0
    )
    assert second_turn.output_text == "Your name is Anna."


def test_it_computes_with_python_and_quotes_the_output(client: OpenAI, model: str) -> None:
    response = client.responses.create(
        model=model,
        input="What is 123 * 456?",
        tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
        tool_choice={"type": "code_interpreter"},
        include=["code_interpreter_call.outputs"],
        temperature=0,
        max_output_tokens=400,
    )
    assert response.status == "completed"
    (call,) = [item for item in response.output if item.type == "code_interpreter_call"]
    assert (call.code, call.status) == ("123 * 456", "completed")
    assert call.outputs is not None
    (output,) = call.outputs
    assert output.type == "logs"
    assert output.logs.strip() == "56088"
    assert "56088" in response.output_text
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens > 0


def test_it_cites_the_line_of_the_documentation_that_answers(client: OpenAI, model: str) -> None:
    response = client.responses.create(
        model=model,
        input="How do I use PostgreSQL as the store?",
        tools=[{"type": "web_search"}],
        temperature=0,
        max_output_tokens=600,
    )
    message = response.output[-1]
    assert message.type == "message"
    (content,) = message.content
    assert content.type == "output_text"
    assert "Use PostgreSQL as the store with `--store` and its address" in content.text
    (citation,) = content.annotations
    assert citation.type == "url_citation"
    assert citation.url.endswith("/storage.md")
