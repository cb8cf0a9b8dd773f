"""vLLM's token interface, against what a real server was recorded to answer."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.base import (
    FEATURES,
    LEAST_LOGPROB,
    BackendConfig,
    BackendInfo,
    GenerationChunk,
    SamplingParams,
    SamplingPhase,
)
from adapters.errors import (
    BackendError,
    BackendFailed,
    ContextTooLong,
    EngineFault,
    GenerationFailed,
    InvalidGrammar,
    Rejected,
)
from adapters.http.engine import HTTPEngine
from adapters.http.options import Options
from adapters.http.vllm import VLLMWire
from adapters.registry import create
from harmony.vocab import RETURN
from tests.adapters.fake_engine import FakeEngine, running, sends, status
from tests.adapters.http.asking import ask
from tests.adapters.sampling import logprobs, run, sample, tokens

GENERATE = "/inference/v1/generate"
INFO = BackendInfo("vllm-http", "demo", 4096, 201_088, FEATURES, max_requests=256)


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    """A server that speaks what vLLM 0.32 was recorded to say."""
    engine = FakeEngine("vllm.json")
    engine.will("/v1/models", engine.recorded("models"))
    engine.will(GENERATE, engine.recorded("empty"), engine.recorded("length"))
    async with running(engine):
        yield engine


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[HTTPEngine]:
    client = HTTPEngine(engine.url, VLLMWire(), Options())
    await client.start()
    yield client
    await client.stop()


async def test_the_engine_describes_what_it_serves(client: HTTPEngine) -> None:
    assert client.info == INFO


async def test_a_model_that_is_not_served_is_named(engine: FakeEngine) -> None:
    client = HTTPEngine(engine.url, VLLMWire("other"), Options())
    with pytest.raises(BackendFailed, match="does not serve other"):
        await client.start()
    await client.stop()


@pytest.mark.parametrize("parent", ["base", "unlisted"])
async def test_a_lora_adapter_has_the_context_of_the_model_that_it_adapts(
    engine: FakeEngine, parent: str
) -> None:
    cards = [
        {"id": "base", "parent": None, "max_model_len": 2048},
        {"id": "sql", "parent": parent, "max_model_len": None},
    ]
    engine.will("/v1/models", status(200, json.dumps({"data": cards})))
    client = HTTPEngine(engine.url, VLLMWire("sql"), Options())
    await client.start()
    assert (client.info.model, client.info.context_length) == ("sql", 2048)
    await client.stop()


async def test_an_engine_without_the_token_interface_names_the_flag(engine: FakeEngine) -> None:
    engine.will(GENERATE, status(404))
    client = HTTPEngine(engine.url, VLLMWire(), Options())
    with pytest.raises(BackendFailed, match="--enable-scale-out"):
        await client.start()
    await client.stop()


async def test_the_tokens_come_as_they_are_sampled(client: HTTPEngine) -> None:
    chunks = await run(client, ask())
    assert tokens(chunks) == [144897, 159940, 151153, 183088]
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish_reason == "length"


async def test_a_stop_token_is_the_last_id(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will(GENERATE, engine.recorded("stop"))
    chunks = await run(client, ask())
    assert chunks == [GenerationChunk((RETURN,), None, "stop", 0)]


async def test_the_last_chunk_has_the_cached_tokens(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will(GENERATE, engine.recorded("cached"))
    chunks = await run(client, ask())
    assert [chunk.cached_tokens for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].cached_tokens == 256


async def test_an_engine_that_keeps_its_counts_to_itself_leaves_them_unknown(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    usage = '"prompt_tokens_details":{"cached_tokens":0}'
    lines = [line.replace(usage, '"prompt_tokens_details":null') for line in engine.lines("stop")]
    engine.will(GENERATE, sends(*lines))
    assert (await run(client, ask()))[-1].cached_tokens is None


async def test_logprobs_are_the_likeliest_best_first(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will(GENERATE, engine.recorded("logprobs"))
    chunks = await run(client, ask(logprobs=2))
    entries = logprobs(chunks)
    assert [entry.token_id for entry in entries] == tokens(chunks)
    for entry in entries:
        assert [rival for _, rival in entry.top] == sorted(
            (rival for _, rival in entry.top), reverse=True
        )
        assert entry.top[0] == (entry.token_id, entry.logprob)  # recorded greedily
        assert len(entry.top) == 2


async def test_logprobs_of_the_sampled_tokens_alone(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will(GENERATE, engine.recorded("logprobs"))
    entries = logprobs(await run(client, ask(logprobs=0)))
    assert {entry.top for entry in entries} == {()}


async def test_the_request_has_the_fields_of_vllm(client: HTTPEngine, engine: FakeEngine) -> None:
    sampling = SamplingParams(0.5, 0.9, 40, 0.1, 0.2, 0.3, 1.1, {7: -100.0})
    optional = {"grammar": "start: <[1]>", "priority": -1, "cache_salt": "salt"}
    request = ask(sampling=sampling, seed=3, logprobs=2, **optional)
    engine.will(GENERATE, engine.recorded("logprobs"))
    await run(client, request)
    body = engine.bodies(GENERATE)[-1]
    assert body.pop("sampling_params") == {
        "max_tokens": 4,
        "stop_token_ids": [RETURN],
        "ignore_eos": True,
        "detokenize": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.1,
        "seed": 3,
        "logprobs": 3,
        "logit_bias": {"7": -100.0},
        "structured_outputs": {"grammar": "start: <[1]>"},
    }
    assert body == {
        "request_id": "r",
        "model": "demo",
        "token_ids": [200006, 1428],
        "reasoning_ended": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "priority": -1,
        "cache_salt": "salt",
    }


async def test_no_more_logprobs_are_asked_for_than_vllm_gives(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will(GENERATE, engine.recorded("logprobs"))
    await run(client, ask(logprobs=20))
    assert engine.bodies(GENERATE)[-1]["sampling_params"]["logprobs"] == 20


async def test_a_request_id_goes_along(client: HTTPEngine, engine: FakeEngine) -> None:
    await run(client, ask())
    assert engine.asked[-1].headers["x-request-id"] == "r"


@pytest.mark.parametrize(
    ("recording", "fields", "error"),
    [
        ("bad grammar", {"grammar": "start: nonsense("}, InvalidGrammar),
        ("too many logprobs", {"logprobs": 20}, Rejected),
        ("bad type", {}, Rejected),
    ],
)
async def test_what_the_engine_refuses_is_no_failure_of_the_engine(
    client: HTTPEngine,
    engine: FakeEngine,
    recording: str,
    fields: dict[str, Any],
    error: type[BackendError],
) -> None:
    engine.will(GENERATE, engine.recorded(recording))
    with pytest.raises(error):
        await run(client, ask(**fields))


async def test_a_422_is_the_requests_fault(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will(GENERATE, status(422, '{"error": {"message": "no such adapter"}}'))
    with pytest.raises(Rejected, match="answered 422"):
        await run(client, ask())


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_an_aborted_generation_is_a_failure(
    client: HTTPEngine, engine: FakeEngine, reason: str
) -> None:
    lines = [line.replace('"stop"', f'"{reason}"') for line in engine.lines("stop")]
    engine.will(GENERATE, sends(*lines))
    with pytest.raises(BackendFailed, match=reason):
        await run(client, ask())


async def test_an_error_in_the_stream_is_a_failure(client: HTTPEngine, engine: FakeEngine) -> None:
    error = 'data: {"error": {"message": "boom", "type": "InternalServerError", "code": 500}}\n\n'
    engine.will(GENERATE, sends(engine.lines("length")[0], error))
    with pytest.raises(BackendFailed, match="answered 500"):
        await run(client, ask())


async def test_a_generation_that_the_engine_gives_up_is_named(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    message = '{"message": "Internal server error", "type": "InternalServerError", "code": 500}'
    lines = (engine.lines("length")[0], f'data: {{"error": {message}}}\n\n')
    engine.will(GENERATE, sends(*lines))
    chunks = client.generate(ask())
    assert (await anext(chunks)).token_ids
    with pytest.raises(GenerationFailed):
        await anext(chunks)


async def test_an_error_of_a_request_in_the_stream_is_the_requests(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will(GENERATE, sends('data: {"error": {"message": "too long", "code": 422}}\n\n'))
    with pytest.raises(Rejected, match="answered 422"):
        await run(client, ask())


async def test_tokens_after_the_end_are_a_fault(client: HTTPEngine, engine: FakeEngine) -> None:
    (end, *_) = engine.lines("stop")
    engine.will(GENERATE, sends(end, engine.lines("length")[0]))
    with pytest.raises(EngineFault, match="more after the end"):
        await run(client, ask())


async def test_missing_logprobs_are_the_least(client: HTTPEngine, engine: FakeEngine) -> None:
    lines = [
        re.sub(r'"logprob":-[\d.]+', '"logprob":null', line) for line in engine.lines("logprobs")
    ]
    engine.will(GENERATE, sends(*lines))
    chunks = await run(client, ask(logprobs=1))
    entries = logprobs(chunks)
    assert {entry.logprob for entry in entries} == {LEAST_LOGPROB}
    assert {entry.top[0][1] for entry in entries} == {LEAST_LOGPROB}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "logprobs of other tokens"),
        ('[{"token_id": 6, "logprob": -1, "top_logprobs": []}]', "logprobs of other tokens"),
        (
            '[{"token_id": 5, "logprob": -1, "top_logprobs": [{"token_id": -1, "logprob": -1}]}]',
            "logprobs of no tokens",
        ),
        ('[{"token_id": 5, "logprob": "-1", "top_logprobs": []}]', "cannot be read"),
        ("null", "cannot be read"),
    ],
)
async def test_logprobs_that_do_not_fit_the_tokens_are_a_fault(
    client: HTTPEngine, engine: FakeEngine, content: str, reason: str
) -> None:
    choice = f'{{"token_ids": [5], "finish_reason": "stop", "logprobs": {{"content": {content}}}}}'
    engine.will(GENERATE, sends(f'data: {{"choices": [{choice}]}}\n\n'))
    with pytest.raises(EngineFault, match=reason):
        await run(client, ask(logprobs=2))


async def test_too_long_a_request_is_not_sent(client: HTTPEngine, engine: FakeEngine) -> None:
    asked = len(engine.asked)
    with pytest.raises(ContextTooLong):
        await run(client, ask(max_tokens=4095))
    assert len(engine.asked) == asked


async def test_a_phase_is_asked_for_with_its_own_sampling(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    phase = SamplingPhase(((159940,),), frozenset(), SamplingParams(presence_penalty=1.0))
    chunks = await run(client, ask(phases=(phase,), max_tokens=6))
    first, second = (body for body in engine.bodies(GENERATE) if body)
    assert second["token_ids"] == [*first["token_ids"], 144897, 159940]
    assert first["sampling_params"]["presence_penalty"] == 0
    assert second["sampling_params"]["presence_penalty"] == 1
    assert second["sampling_params"]["max_tokens"] == 4
    assert tokens(chunks) == [144897, 159940, 144897, 159940, 151153, 183088]


async def test_the_backend_pools_its_urls(engine: FakeEngine) -> None:
    options = {"url": f"{engine.url}/,{engine.url}"}
    config = BackendConfig(None, options, lambda text: [], lambda ids: "", lambda: None)
    backend = create("vllm-http", config)
    await backend.start()
    assert backend.info == INFO
    assert await sample(backend, ask())
    await backend.stop()


@pytest.mark.parametrize("seed", [-(2**63), -1, 2**63 - 1])
async def test_extremes_fit_the_engines_numbers(
    client: HTTPEngine, engine: FakeEngine, seed: int
) -> None:
    """A seed of -1 is none to vLLM."""
    await run(client, ask(sampling=SamplingParams(5e-324, top_k=2**63), seed=seed))
    params = engine.bodies(GENERATE)[-1]["sampling_params"]
    assert (params["temperature"], params["top_k"]) == (0.0, 0)
    assert params["seed"] == seed % 2**63
