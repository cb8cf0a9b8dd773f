"""Sampling parameters at their extremes, through the whole server, beside others' requests.

An extreme is refused or served; the others get the tokens that they get alone.
"""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.backend import LocalBackend
from adapters.local.steps import sampling as sampling_module
from adapters.local.steps.sampling import Warp
from server.app import create_app
from server.settings import Settings
from tests.adapters.local.conftest import started
from tests.adapters.local.tiny import write_tiny

TOKENS = 24
OTHERS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 1, "seed": 11},
    {"temperature": 0.7, "top_p": 0.8, "top_k": 40, "min_p": 0.01, "seed": 12},
    {"presence_penalty": 1, "repetition_penalty": 1.3, "logit_bias": {"7": 3}, "seed": 13},
)
NUMBERS = (1e308, -1e308, 5e-324, -5e-324, -0.0, 0, 1, 2, -1, 2**31, 2**63, -(2**63), 2**64)
EXTREMES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("temperature", "top_p", "min_p"), NUMBERS),
    **dict.fromkeys(("presence_penalty", "frequency_penalty", "repetition_penalty"), NUMBERS),
    **dict.fromkeys(("top_k", "seed", "priority", "max_tokens"), NUMBERS),
    "logprobs": (-1, 0, 1, 20, 21, 2**63, 2**64),
    "n": (-1, 0, 2, 129, 2**63, 2**64),
    "best_of": (-1, 0, 2, 21, 2**64),
    "stop": ([], "", ["a"] * 5, "\ud800", "x" * 10_000),
    "logit_bias": (
        {},
        {"0": 1e308},
        {"999": 100},
        {"1000": 1},  # past the small model's vocabulary
        {"201087": -100},
        {"201088": 1},
        {"-0": 1},
        {str(2**64): 1},
        {"5": 5e-324, "6": -0.0, "7": -100, "8": 100},
        {str(token_id): 100 for token_id in range(1000)},
    ),
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(
    small_config: BackendConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[LocalBackend]:
    """Its context is a quarter of its cache, so that the longest answers end soon."""
    folder = write_tiny(tmp_path_factory.mktemp("short"), max_position_embeddings=256)
    async with started(dataclasses.replace(small_config, model=str(folder))) as backend:
        yield backend


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(backend: LocalBackend) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(), backend)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    await app.state.context.gateway.runs.close()


async def post(client: httpx.AsyncClient, fields: dict[str, Any]) -> httpx.Response:
    body = {"prompt": [1, 2, 3], "max_tokens": TOKENS, "model": "gpt-oss-demo", **fields}
    text = json.dumps({**body, "return_token_ids": True})
    return await client.post("/v1/completions", content=text)


async def tokens(client: httpx.AsyncClient, place: int) -> list[int]:
    answer = await post(client, {**OTHERS[place], "prompt": [100 + place, 200, 300]})
    (one,) = answer.json()["choices"]
    return list(one["token_ids"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone(client: httpx.AsyncClient) -> list[list[int]]:
    return [await tokens(client, place) for place in range(len(OTHERS))]


@pytest.mark.parametrize("field", EXTREMES)
async def test_an_extreme_changes_nothing_for_others(
    client: httpx.AsyncClient, alone: list[list[int]], field: str
) -> None:
    extremes = [asyncio.create_task(post(client, {field: value})) for value in EXTREMES[field]]
    beside = await asyncio.gather(*[tokens(client, place) for place in range(len(OTHERS))])
    answers = await asyncio.gather(*extremes)
    assert beside == alone
    for value, answer in zip(EXTREMES[field], answers, strict=True):
        assert answer.status_code in (200, 400), (value, answer.text)
        if answer.status_code == 400:
            error = answer.json()["error"]
            assert error["param"] or error["code"] == "engine_refused", (value, error)
    assert any(answer.status_code == 200 for answer in answers)


async def test_extremes_at_once_change_nothing_for_others(
    client: httpx.AsyncClient, alone: list[list[int]]
) -> None:
    """All that is served, in one request after another and in pairs."""
    mixed: list[dict[str, Any]] = [
        {"temperature": 5e-324, "top_p": 0, "top_k": 2**63, "min_p": 1},
        {"temperature": 2, "top_k": 2**64 - 1, "top_p": 5e-324, "seed": -(2**63)},
        {"temperature": 2, "top_k": 999, "top_p": 1, "min_p": 5e-324, "seed": 2**63 - 1},
        {"presence_penalty": 2, "frequency_penalty": 2, "repetition_penalty": 100},
        {"presence_penalty": -2, "frequency_penalty": -2, "repetition_penalty": 0.01},
        {"temperature": 1e-5, "logit_bias": {str(i): 100 for i in range(500)}, "logprobs": 20},
    ]
    extremes = [asyncio.create_task(post(client, fields)) for fields in mixed]
    beside = await asyncio.gather(*[tokens(client, place) for place in range(len(OTHERS))])
    assert [answer.status_code for answer in await asyncio.gather(*extremes)] == [200] * len(mixed)
    assert list(beside) == alone


async def test_a_row_that_fails_in_a_step_ends_alone(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the fault is: what a batch cannot take, each row is asked for itself."""
    warp_of = sampling_module.warp_of

    def strict(params: list[SamplingParams], device: Any) -> Warp:
        if any(one.min_p == 0.25 for one in params):
            raise OverflowError("int too big to convert")
        warp: Warp = warp_of(params, device)
        return warp

    def ask(place: int, **fields: Any) -> GenerationRequest:
        prompt = (place + 1, 50, 60)
        sampling = SamplingParams(**({"temperature": 1.0} | fields))
        return GenerationRequest(f"{place}", prompt, TOKENS, frozenset(), sampling, seed=place)

    async def run(request: GenerationRequest) -> list[int]:
        return [t async for chunk in backend.generate(request) for t in chunk.token_ids]

    requests = [ask(0), ask(1, presence_penalty=2.0), ask(2, temperature=0.0)]
    alone = [await run(request) for request in requests]
    monkeypatch.setattr(sampling_module, "warp_of", strict)
    *beside, guilty = await asyncio.gather(
        *map(run, (*requests, ask(3, min_p=0.25))), return_exceptions=True
    )
    assert beside == alone
    assert "int too big" in str(guilty)
