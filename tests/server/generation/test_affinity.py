from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from adapters.base import BackendConfig
from adapters.registry import create
from harmony.tokenizer import decode, encode_with_control
from server.app import create_app
from server.generation.affinity import conversation_key
from server.settings import Settings
from tests.adapters.fake_engine import FakeEngine, running

SYSTEM = "<|start|>system<|message|>Be kind.<|end|>"
FIRST = f"{SYSTEM}<|start|>user<|message|>Hi, user<|end|>"
NEXT = "<|start|>assistant"


def key(text: str) -> str | None:
    return conversation_key(tuple(encode_with_control(text)))


def test_all_turns_of_a_conversation_have_one_key() -> None:
    turns = [FIRST + NEXT]
    turns.append(turns[0] + "<|channel|>final<|message|>Yes?<|end|>")
    turns.append(turns[1] + "<|start|>user<|message|>More<|end|>" + NEXT)
    assert len({key(turn) for turn in turns}) == 1
    assert key(FIRST) is not None


@pytest.mark.parametrize(
    "other",
    [
        FIRST.replace("Hi", "Ho"),
        FIRST.replace("kind", "brief"),
        FIRST.replace("<|start|>user", "<|start|>user:Ann"),
    ],
)
def test_another_beginning_is_another_conversation(other: str) -> None:
    assert key(other) is not None
    assert key(other) != key(FIRST)


@pytest.mark.parametrize(
    "text",
    ["", "user", SYSTEM + NEXT, "<|start|>", "<|start|>user<|message|>cut off", SYSTEM[:-7]],
)
def test_a_prompt_without_a_user_message_has_none(text: str) -> None:
    assert key(text) is None


# Behind two engines


@pytest.fixture
async def engines() -> AsyncIterator[list[FakeEngine]]:
    async with AsyncExitStack() as stack:
        opened = [FakeEngine("vllm.json"), FakeEngine("vllm.json")]
        for engine in opened:
            engine.will("/v1/models", engine.recorded("models"))
            engine.will(GENERATE, engine.recorded("empty"), engine.recorded("length"))
            await stack.enter_async_context(running(engine))
        yield opened


GENERATE = "/inference/v1/generate"


@pytest.fixture
async def client(engines: list[FakeEngine]) -> AsyncIterator[httpx.AsyncClient]:
    urls = ",".join(engine.url for engine in engines)
    config = BackendConfig(None, {"url": urls}, encode_with_control, decode, lambda: None)
    backend = create("vllm-http", config)
    await backend.start()
    app = create_app(Settings(backend="vllm-http", served_model_name=("demo",)), backend)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    await app.state.context.gateway.runs.close()
    await backend.stop()


def asked(engines: list[FakeEngine]) -> list[list[dict[str, Any]]]:
    """What each engine was to sample; the first body only tried whether it takes ids."""
    return [engine.bodies(GENERATE)[1:] for engine in engines]


async def chat(client: httpx.AsyncClient, first: str, turns: int) -> None:
    messages = [{"role": "user", "content": first}]
    for turn in range(turns):
        body = {"model": "demo", "messages": messages, "max_tokens": 50}
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        messages.append(answer.json()["choices"][0]["message"])
        messages.append({"role": "user", "content": f"And {turn}?"})


async def test_every_turn_of_a_conversation_goes_to_the_same_engine(
    client: httpx.AsyncClient, engines: list[FakeEngine]
) -> None:
    for name in "abcd":
        before = [len(each) for each in asked(engines)]
        await chat(client, f"My name is {name}.", turns=3)
        grown = [len(each) - was for each, was in zip(asked(engines), before, strict=True)]
        assert sorted(grown) == [0, 3]


async def test_responses_that_continue_go_where_the_first_went(
    client: httpx.AsyncClient, engines: list[FakeEngine]
) -> None:
    previous = None
    for turn in range(3):
        body = {"model": "demo", "input": f"Turn {turn}", "max_output_tokens": 50}
        answer = await client.post("/v1/responses", json={**body, "previous_response_id": previous})
        assert answer.status_code == 200, answer.text
        previous = answer.json()["id"]
    assert sorted(len(each) for each in asked(engines)) == [0, 3]


async def test_conversations_are_spread(
    client: httpx.AsyncClient, engines: list[FakeEngine]
) -> None:
    for number in range(24):
        await chat(client, f"Conversation {number}", turns=1)
    assert all(asked(engines))


async def test_a_cache_key_decides_before_the_prompt(
    client: httpx.AsyncClient, engines: list[FakeEngine]
) -> None:
    for number in range(8):
        messages = [{"role": "user", "content": f"Conversation {number}"}]
        body = {"model": "demo", "messages": messages, "prompt_cache_key": "k", "max_tokens": 50}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    assert sorted(len(each) for each in asked(engines)) == [0, 8]
