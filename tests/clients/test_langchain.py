"""LangChain's `ChatOpenAI` against a real server process."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

START = "<|start|>assistant"
ANSWER = (
    f"<|channel|>analysis<|message|>Greet.<|end|>{START}<|channel|>final<|message|>Hello!<|return|>"
)
CALL = (
    f"<|channel|>commentary<|message|>Looking it up.<|end|>"
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
    {"prompt_contains": "Say hello", "completion": ANSWER},
]


class Event(BaseModel):
    """An event in a calendar."""

    name: str
    day: int


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"22 degrees in {city}"


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", "gpt-oss-test")


@pytest.fixture
def model(base_url: str) -> ChatOpenAI:
    # Usage in streams has to be requested if the address is not OpenAI's.
    return ChatOpenAI(
        model="gpt-oss-test",
        base_url=base_url,
        api_key=SecretStr("any"),
        max_retries=0,
        stream_usage=True,
    )


def test_an_answer_with_its_usage(model: ChatOpenAI) -> None:
    answer = model.invoke("Say hello")
    assert answer.content == "Hello!"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_token_details"]["reasoning"] == 3


async def test_a_stream_adds_up_to_the_answer(model: ChatOpenAI) -> None:
    total: Any = None
    async for chunk in model.astream("Say hello"):
        total = chunk if total is None else total + chunk
    assert total.content == "Hello!"
    assert total.usage_metadata["total_tokens"] > 0
    assert total.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tool_round_trip(model: ChatOpenAI, streaming: bool) -> None:
    bound = model.bind_tools([weather])
    question = HumanMessage("What is the weather in Paris?")
    call: Any = bound.invoke([question])
    if streaming:
        first, *rest = bound.stream([question])
        call = sum(rest, first)
    assert call.content == "Looking it up."
    (tool_call,) = call.tool_calls
    assert (tool_call["name"], tool_call["args"]) == ("weather", {"city": "Paris"})
    result = ToolMessage(weather.invoke(tool_call["args"]), tool_call_id=tool_call["id"])
    assert bound.invoke([question, call, result]).content == "It is warm!"


def test_an_answer_by_schema(model: ChatOpenAI) -> None:
    read = model.with_structured_output(Event, method="json_schema", strict=True)
    assert read.invoke("as an event") == Event(name="Fair", day=3)


@pytest.mark.parametrize("responses", [False, True])
def test_a_prompt_that_is_too_long_is_an_overflow_of_the_context(
    model: ChatOpenAI, responses: bool
) -> None:
    model.use_responses_api = responses
    with pytest.raises(ContextOverflowError):
        model.invoke(" word" * 140_000)
