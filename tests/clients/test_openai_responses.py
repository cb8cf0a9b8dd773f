"""The `openai` package against `/v1/responses` of a real server process."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from openai import (
    APIError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    OpenAI,
)
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel

MODEL = "gpt-oss-test"
KEY = "secret"
ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello there!<|return|>"
)
CALLS = (
    "<|channel|>analysis<|message|>Ask.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>Looking it up.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json"
    '<|message|>{"city":"Paris"}<|call|>'
)
SCRIPT = [
    {"prompt_contains": "22 degrees", "completion": ANSWER.replace("Hello there", "It is warm")},
    {"prompt_contains": "weather in Paris", "completion": CALLS},
    {
        "prompt_contains": "as an event",
        "completion": '<|channel|>final<|message|>{"name":"Fair","day":3}<|return|>',
    },
    {
        "prompt_contains": "without end",
        "completion": f"<|channel|>final<|message|>{'more ' * 5000}<|return|>",
        "delay_ms": 5,
    },
    {"prompt_contains": "Say hello", "completion": ANSWER},
]
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Event(BaseModel):
    name: str
    day: int


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    names = ("--served-model-name", MODEL, "--api-key", KEY)
    return serve(SCRIPT, *names, "--max-running", "1")


@pytest.fixture
def client(base_url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=base_url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(base_url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0) as client:
        yield client


def test_an_answer(client: OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="Say hello")
    assert response.output_text == "Hello there!"
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens > 0
    assert client.responses.retrieve(response.id).output_text == "Hello there!"
    client.responses.delete(response.id)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(response.id)


async def test_an_answer_asynchronously(async_client: AsyncOpenAI) -> None:
    response = await async_client.responses.create(model=MODEL, input="Say hello")
    assert response.output_text == "Hello there!"


def test_a_stream(client: OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="Say hello", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    reasoning_deltas = [
        event.delta for event in events if event.type == "response.reasoning_text.delta"
    ]
    assert ("".join(deltas), "".join(reasoning_deltas)) == ("Hello there!", "Greet.")
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "Hello there!"


async def test_a_stream_asynchronously(async_client: AsyncOpenAI) -> None:
    stream = await async_client.responses.create(model=MODEL, input="Say hello", stream=True)
    kinds = [event.type async for event in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


def test_the_stream_helper_accumulates_what_the_server_ends_with(client: OpenAI) -> None:
    with client.responses.stream(model=MODEL, input="weather in Paris", tools=[WEATHER]) as stream:
        snapshots = [
            event.snapshot
            for event in stream
            if event.type == "response.function_call_arguments.delta"
        ]
        final = stream.get_final_response()
    assert snapshots[-1] == '{"city":"Paris"}'
    call = final.output[-1]
    assert call.type == "function_call"
    assert call.parsed_arguments == {"city": "Paris"}
    assert final.output_text == "Looking it up."


async def test_the_stream_helper_asynchronously(async_client: AsyncOpenAI) -> None:
    async with async_client.responses.stream(
        model=MODEL, input="as an event", text_format=Event
    ) as stream:
        done = [event async for event in stream if event.type == "response.output_text.done"]
        final = await stream.get_final_response()
    assert done[0].parsed == Event(name="Fair", day=3)
    assert final.output_parsed == Event(name="Fair", day=3)


def test_parse(client: OpenAI) -> None:
    response = client.responses.parse(model=MODEL, input="as an event", text_format=Event)
    assert response.output_parsed == Event(name="Fair", day=3)


@pytest.mark.parametrize("stateless", [True, False])
def test_a_tool_round_trip(client: OpenAI, stateless: bool) -> None:
    question: Any = [{"role": "user", "content": "weather in Paris"}]
    first = client.responses.create(model=MODEL, input=question, tools=[WEATHER])
    call = first.output[-1]
    assert isinstance(call, ResponseFunctionToolCall)
    assert json.loads(call.arguments) == {"city": "Paris"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "22 degrees"}
    if stateless:
        items = [item.model_dump(exclude_none=True) for item in first.output]
        more: Any = {"input": [*question, *items, result], "store": False}
    else:
        more = {"input": [result], "previous_response_id": first.id}
    second = client.responses.create(model=MODEL, tools=[WEATHER], **more)
    assert second.output_text == "It is warm!"


def test_a_stream_that_is_stopped_half_way_is_cancelled(client: OpenAI) -> None:
    stream = client.responses.create(model=MODEL, input="without end", stream=True)
    response_id = ""
    for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            break
    stream.close()
    # The server runs one request at a time: the slot is free again.
    assert client.responses.create(model=MODEL, input="Say hello").status == "completed"
    while (stored := client.responses.retrieve(response_id)).status == "in_progress":
        continue
    assert stored.status == "cancelled"


async def test_an_async_stream_that_is_stopped_half_way_is_cancelled(
    async_client: AsyncOpenAI,
) -> None:
    stream = await async_client.responses.create(model=MODEL, input="without end", stream=True)
    response_id = ""
    async for event in stream:
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    hello = await async_client.responses.create(model=MODEL, input="Say hello")
    assert hello.output_text == "Hello there!"
    assert (await async_client.responses.retrieve(response_id)).status == "cancelled"


def test_truncation_is_incomplete(client: OpenAI) -> None:
    response = client.responses.create(model=MODEL, input="Say hello", max_output_tokens=3)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_errors_are_the_sdks_own(client: OpenAI) -> None:
    with pytest.raises(NotFoundError):
        client.responses.create(model="gpt-9", input="Say hello")
    with pytest.raises(BadRequestError) as missing:
        client.responses.create(model=MODEL, input="x", previous_response_id="resp_9")
    assert missing.value.code == "previous_response_not_found"
    number: Any = {"role": "user", "content": 3}
    with pytest.raises(BadRequestError) as bad:
        client.responses.create(model=MODEL, input=[number])
    assert bad.value.param == "input.0.content"
    with pytest.raises(AuthenticationError):
        client.with_options(api_key="other").responses.create(model=MODEL, input="Say hello")


def test_an_error_in_a_stream_is_raised_after_its_events(client: OpenAI) -> None:
    stream = client.responses.create(model=MODEL, input="no line for this", stream=True)
    with pytest.raises(APIError) as caught:
        list(stream)
    assert "no matching line" in caught.value.message


def test_every_answer_has_a_request_id(base_url: str) -> None:
    answer = httpx.post(
        f"{base_url}/responses",
        json={"model": MODEL, "input": "Say hello"},
        headers={"authorization": f"Bearer {KEY}"},
    )
    assert answer.headers["x-request-id"].startswith("req_")
