"""OpenAI's agents SDK, in Python and in JavaScript, against a real server process."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    RunConfig,
    Runner,
    function_tool,
)
from pydantic import BaseModel

from tests.clients.agents_sdk import run_config
from tests.clients.conftest import RunScript

MODEL = "gpt-oss-test"
START = "<|start|>assistant"
REASONING = "<|channel|>analysis<|message|>Think.<|end|>"


def reply(text: str) -> str:
    return f"{REASONING}{START}<|channel|>final<|message|>{text}<|return|>"


def calls(name: str, arguments: str) -> str:
    header = f"<|channel|>commentary to=functions.{name} <|constrain|>json"
    return f"{REASONING}{START}{header}<|message|>{arguments}<|call|>"


CALL = calls("weather", '{"city":"Paris"}')
SCRIPT = [
    # After a call its reasoning is in the prompt: as sampled if the server stored it, else
    # as it is rendered.
    {"prompt_contains": f"{CALL}<|start|>functions.weather", "completion": reply("It is warm!")},
    {
        "prompt_contains": f"{REASONING}{START} to=functions.weather",
        "completion": reply("It is warm!"),
    },
    {"prompt_contains": "Speak French.", "completion": reply("Bonjour!")},
    {"prompt_contains": "Greet me in French", "completion": calls("transfer_to_french", "{}")},
    {"prompt_contains": "weather in Paris", "completion": CALL},
    {"prompt_contains": "as an event", "completion": reply('{"name":"Fair","day":3}')},
    {"prompt_contains": "My name is Ada", "completion": reply("Hello, Ada!")},
    {"prompt_contains": "Say hello", "completion": reply("Hello!")},
]


class Event(BaseModel):
    name: str
    day: int


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", MODEL)


@pytest.fixture(params=[True, False], ids=["stored", "stateless"])
async def config(base_url: str, request: pytest.FixtureRequest) -> AsyncIterator[RunConfig]:
    """Runs with stored responses, and runs with reasoning that the client sends back."""
    include: Any = [] if request.param else ["reasoning.encrypted_content"]
    settings = ModelSettings(store=request.param, response_include=include)
    async with run_config(base_url, MODEL, settings) as config:
        yield config


@pytest.fixture
def guide() -> Agent[None]:
    @function_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"22 degrees in {city}"

    return Agent("Guide", tools=[weather])


async def test_an_answer(guide: Agent[None], config: RunConfig) -> None:
    result = await Runner.run(guide, "Say hello", run_config=config)
    assert result.final_output == "Hello!"
    assert result.context_wrapper.usage.output_tokens_details.reasoning_tokens > 0


async def test_a_tool_is_called_and_its_result_comes_back(
    guide: Agent[None], config: RunConfig
) -> None:
    result = await Runner.run(guide, "What is the weather in Paris?", run_config=config)
    assert result.final_output == "It is warm!"
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs == ["22 degrees in Paris"]


async def test_a_run_is_streamed(guide: Agent[None], config: RunConfig) -> None:
    result = Runner.run_streamed(guide, "What is the weather in Paris?", run_config=config)
    deltas = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(deltas) == result.final_output == "It is warm!"
    assert len(deltas) > 1


async def test_an_agent_hands_over_to_another(config: RunConfig) -> None:
    french = Agent[None]("french", instructions="Speak French.")
    triage = Agent[None]("Triage", handoffs=[french])
    result = await Runner.run(triage, "Greet me in French", run_config=config)
    assert (result.final_output, result.last_agent.name) == ("Bonjour!", "french")


async def test_an_output_type_is_filled(config: RunConfig) -> None:
    clerk = Agent[None]("Clerk", output_type=Event)
    result = await Runner.run(clerk, "as an event", run_config=config)
    assert result.final_output == Event(name="Fair", day=3)


async def test_a_run_goes_on_from_another(guide: Agent[None], config: RunConfig) -> None:
    first = await Runner.run(guide, "My name is Ada", run_config=config)
    more: list[Any] = [*first.to_input_list(), {"role": "user", "content": "What is my name?"}]
    second = await Runner.run(guide, more, run_config=config)
    assert second.final_output == "Hello, Ada!"


def test_the_sdk_in_javascript(run_script: RunScript, base_url: str) -> None:
    assert run_script("agents.mjs", base_url, MODEL) == {
        "hello": "Hello!",
        "tools": "It is warm!",
        "streamed": "It is warm!",
        "asked": ["Paris", "Paris"],
        "handoff": {"text": "Bonjour!", "by": "french"},
        "structured": {"name": "Fair", "day": 3},
    }
