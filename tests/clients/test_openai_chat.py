"""The `openai` package against `/v1/chat/completions` of a real server process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, NotFoundError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

MODEL = "gpt-oss-test"
START = "<|start|>assistant"
ANSWER = (
    f"<|channel|>analysis<|message|>Greet.<|end|>{START}<|channel|>final<|message|>Hello!<|return|>"
)
CALL = (
    "<|channel|>analysis<|message|>Ask.<|end|>"
    f"{START}<|channel|>commentary<|message|>Looking it up.<|end|>"
    f"{START}<|channel|>commentary to=functions.weather <|constrain|>json"
    '<|message|>{"city":"Paris"}<|call|>'
)
SCRIPT = [
    {"prompt_contains": "22 degrees", "completion": ANSWER.replace("Hello", "It is warm")},
    {"prompt_contains": "weather in Paris", "completion": CALL},
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
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class Event(BaseModel):
    name: str
    day: int


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", MODEL, "--max-running", "1", "--max-waiting", "4")


@pytest.fixture
async def async_client(base_url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        yield client


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def extra(model: BaseModel, name: str) -> Any:
    return (model.model_extra or {}).get(name)


def test_a_completion(client: OpenAI) -> None:
    completion = client.chat.completions.create(model=MODEL, messages=user("Say hello"))
    ChatCompletion.model_validate(completion.model_dump(), strict=True)
    message = completion.choices[0].message
    assert message.content == "Hello!"
    assert extra(message, "reasoning") == "Greet."
    assert completion._request_id
    assert completion.usage is not None
    assert completion.usage.completion_tokens_details is not None
    assert completion.usage.completion_tokens_details.reasoning_tokens == 3


def test_a_stream(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=user("Say hello"),
        stream=True,
        stream_options={"include_usage": True},
    )
    reasoning, content, usage = "", "", None
    for chunk in stream:
        ChatCompletionChunk.model_validate(chunk.model_dump(), strict=True)
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += extra(choice.delta, "reasoning") or ""
        usage = chunk.usage
    assert (reasoning, content) == ("Greet.", "Hello!")
    assert usage is not None


async def test_both_with_the_asynchronous_client(async_client: AsyncOpenAI) -> None:
    create = async_client.chat.completions.create
    whole = await create(model=MODEL, messages=user("Say hello"))
    stream = await create(model=MODEL, messages=user("Say hello"), stream=True)
    text = "".join([c.choices[0].delta.content or "" async for c in stream])
    assert whole.choices[0].message.content == text == "Hello!"


def test_the_stream_helper_sees_text_and_calls(client: OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=user("weather in Paris?"), tools=[WEATHER]
    ) as stream:
        events = list(stream)
    completion = stream.get_final_completion()
    message = completion.choices[0].message
    assert message.content == "Looking it up."
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.parsed_arguments == {"city": "Paris"}
    kinds = {event.type for event in events}
    assert {"content.delta", "content.done", "tool_calls.function.arguments.delta"} <= kinds
    assert completion.choices[0].finish_reason == "tool_calls"


def test_the_stream_helper_separates_choices(client: OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=user("Say hello"), n=3) as stream:
        stream.until_done()
    choices = stream.get_final_completion().choices
    assert [(choice.index, choice.message.content) for choice in choices] == [
        (index, "Hello!") for index in range(3)
    ]


def test_an_answer_parses_into_a_pydantic_model(client: OpenAI) -> None:
    completion = client.chat.completions.parse(
        model=MODEL, messages=user("as an event"), response_format=Event
    )
    assert completion.choices[0].message.parsed == Event(name="Fair", day=3)


def test_a_tool_round_trip(client: OpenAI) -> None:
    messages = user("What is the weather in Paris?")
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    message = first.choices[0].message
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "22 degrees"}
    continued: Any = [*messages, message, result]
    second = client.chat.completions.create(model=MODEL, messages=continued, tools=[WEATHER])
    assert second.choices[0].message.content == "It is warm!"


def test_a_stream_that_is_closed_early_frees_its_slot(client: OpenAI) -> None:
    # One request runs at a time: the second is answered only once the first is gone.
    stream = client.chat.completions.create(model=MODEL, messages=user("without end"), stream=True)
    for _, _ in zip(range(5), stream, strict=False):
        continue
    stream.close()
    after = client.chat.completions.create(model=MODEL, messages=user("Say hello"), timeout=60)
    assert after.choices[0].message.content == "Hello!"


async def samples_now(raw: httpx.AsyncClient) -> bool:
    """Whether the server samples an answer."""
    metrics = (await raw.get("../metrics")).text
    return 'vllm:num_requests_running{model_name="gpt-oss-test"} 1.0' in metrics


async def test_an_abandoned_request_frees_its_slot(base_url: str) -> None:
    async with httpx.AsyncClient(base_url=base_url) as raw:
        body = {"model": MODEL, "messages": user("without end")}
        abandoned = asyncio.create_task(raw.post("/chat/completions", json=body, timeout=60))
        while not await samples_now(raw):
            assert not abandoned.done()
            await asyncio.sleep(0.001)
        abandoned.cancel()
        await asyncio.wait([abandoned])
        body = {"model": MODEL, "messages": user("Say hello")}
        answer = await raw.post("/chat/completions", json=body, timeout=60)
    assert answer.json()["choices"][0]["message"]["content"] == "Hello!"


def test_errors_have_the_clients_own_types(client: OpenAI) -> None:
    with pytest.raises(NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=user("Say hello"))
    with pytest.raises(BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=user("Say hello"), temperature=9)
    assert bad.value.param == "temperature"


def test_an_error_within_a_stream_raises(client: OpenAI) -> None:
    stream = client.chat.completions.create(model=MODEL, messages=user("?"), stream=True)
    with pytest.raises(APIError, match="no matching line"):
        list(stream)


def test_stored_completions(client: OpenAI) -> None:
    completions = client.chat.completions
    made = completions.create(
        model=MODEL, messages=user("Say hello"), store=True, metadata={"test": "stored"}
    )
    assert completions.retrieve(made.id).choices == made.choices
    assert [each.id for each in completions.list(metadata={"test": "stored"})] == [made.id]
    changed = completions.update(made.id, metadata={"test": "changed"})
    assert changed.metadata == {"test": "changed"}
    (message,) = completions.messages.list(made.id)
    assert message.content == "Say hello"
    assert completions.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        completions.retrieve(made.id)
