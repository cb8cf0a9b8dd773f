"""Vercel's AI SDK against a real server process, with each provider that speaks to it."""

import json
from collections.abc import Callable

import pytest

from tests.clients.conftest import RunScript

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
    {
        # The second turn repeats the first one as it was sampled, its reasoning included.
        "prompt_contains": f"{START}{CALL}",
        "completion": ANSWER.replace("Hello", "It is warm"),
    },
    {
        # The provider for Responses gives the call back without its id.
        "prompt_contains": f"{START}{CALL.partition(f'{START}<|channel|>commentary to=')[0]}"
        f"{START} to=functions.weather",
        "completion": ANSWER.replace("Hello", "It is warm"),
    },
    {"prompt_contains": "<|message|>What is the weather in Paris?<|end|>", "completion": CALL},
    {
        "prompt_contains": "as an event",
        "completion": '<|channel|>final<|message|>{"name":"Fair","day":3}<|return|>',
    },
    {"prompt_contains": "Say hello", "completion": ANSWER},
]


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", "gpt-oss-test")


@pytest.fixture(scope="module")
def hiding_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", "gpt-oss-test", "--raw-reasoning", "hide")


@pytest.mark.parametrize("provider", ["compatible", "openrouter", "responses"])
def test_the_ai_sdk_reads_everything(run_script: RunScript, base_url: str, provider: str) -> None:
    results = run_script("ai.mjs", provider, base_url, "gpt-oss-test")
    # The provider for Responses shows summaries alone, and here it asks for none.
    shows_reasoning = provider != "responses"
    for answer in (results["whole"], results["streamed"]):
        assert answer["text"] == "Hello!"
        assert (answer.get("reasoning") or "") == ("Greet." if shows_reasoning else "")
        assert answer["usage"]["outputTokens"] > 0
        assert answer["usage"]["outputTokenDetails"]["reasoningTokens"] > 0
    assert results["streamed"]["parts"]["text-delta"] > 1
    assert (results["streamed"]["parts"].get("reasoning-delta", 0) > 1) == shows_reasoning
    for round_trip in (results["tools"], results["streamedTools"]):
        assert round_trip == {"text": "It is warm!", "steps": 2, "preamble": "Looking it up."}
    assert results["asked"] == ["Paris", "Paris"]
    assert results["structured"] == {"name": "Fair", "day": 3}


def test_openrouters_provider_returns_sealed_reasoning(
    run_script: RunScript, hiding_url: str
) -> None:
    results = run_script("ai.mjs", "stateless", hiding_url, "gpt-oss-test")
    for answer in (results["whole"], results["streamed"]):
        assert answer["text"] == "Hello!"
        assert "Greet." not in json.dumps(answer)
    # Nothing is stored: only what the client gave back can have made the second prompt.
    for round_trip in (results["tools"], results["streamedTools"]):
        assert round_trip == {"text": "It is warm!", "steps": 2, "preamble": "Looking it up."}
