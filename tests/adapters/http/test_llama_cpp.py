"""llama.cpp's server, against exchanges written from its README and source."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.base import (
    BackendConfig,
    GenerationChunk,
    GenerationRequest,
    SamplingParams,
    TokenLogprobs,
)
from adapters.errors import BackendFailed, EngineFault, InvalidGrammar, Rejected, Unsupported
from adapters.http.engine import HTTPEngine
from adapters.http.llama_cpp import LlamaCppWire
from adapters.http.options import Options
from adapters.registry import create
from tests.adapters.fake_engine import FakeEngine, running, status

EMOJI = {"\U0001faa2": [93, 94, 95]}


def encode(text: str) -> list[int]:
    return EMOJI[text]


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine("llama_cpp.json")
    engine.will("/props", engine.recorded("props"))
    engine.will("/completion", engine.recorded("masked"), engine.recorded("stop"))
    async with running(engine):
        yield engine


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[HTTPEngine]:
    client = HTTPEngine(engine.url, LlamaCppWire(encode), Options())
    await client.start()
    yield client
    await client.stop()


def ask(**fields: Any) -> GenerationRequest:
    wanted = {"max_tokens": 4, "stop_token_ids": frozenset({200002})} | fields
    return GenerationRequest("r", (200006, 1428), **wanted)


async def sample(client: HTTPEngine, request: GenerationRequest) -> list[GenerationChunk]:
    return [chunk async for chunk in client.generate(request)]


def joined(chunks: list[GenerationChunk]) -> tuple[int, ...]:
    return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)


async def test_what_the_server_can_do_is_declared(client: HTTPEngine) -> None:
    assert (client.info.name, client.info.context_length) == ("llama-cpp", 8192)
    assert client.info.model == "/models/gpt-oss-20b-mxfp4.gguf"
    assert {"grammar", "seed", "phases"} <= client.info.features
    assert "penalties" not in client.info.features


async def test_a_server_without_llguidance_takes_no_grammar(engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("unmasked"))
    client = HTTPEngine(engine.url, LlamaCppWire(encode), Options())
    await client.start()
    with pytest.raises(Unsupported, match="llama-cpp backend does not support a grammar"):
        await sample(client, ask(grammar="start: <[1]>"))
    await client.stop()


async def test_the_tokens_come_as_they_are_sampled(client: HTTPEngine) -> None:
    chunks = await sample(client, ask())
    assert joined(chunks) == (200005, 17196, 200002)
    assert (chunks[-1].finish_reason, chunks[-1].cached_tokens) == ("stop", 5)


async def test_ids_that_the_stream_leaves_out_are_found_again(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("emoji"))
    chunks = await sample(client, ask(logprobs=1))
    assert joined(chunks) == (64, 93, 94, 95)
    assert chunks[-1].finish_reason == "length"
    entries = [entry for chunk in chunks for entry in chunk.logprobs or ()]
    assert [entry.token_id for entry in entries] == [64, 93, 94, 95]
    assert entries[-1] == TokenLogprobs(95, -2.0, ((95, -2.0),))


async def test_the_request_is_said_in_llama_cpps_words(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("emoji"))
    sampling = SamplingParams(0.5, 0.9, 40, 0.1, logit_bias={7: -100.0})
    request = ask(sampling=sampling, seed=3, logprobs=0, grammar="start: <[1]>")
    entries = [one for chunk in await sample(client, request) for one in chunk.logprobs or ()]
    assert {entry.top for entry in entries} == {()}
    assert engine.bodies("/completion")[-1] == {
        "prompt": [200006, 1428],
        "n_predict": 4,
        "stream": True,
        "return_tokens": True,
        "timings_per_token": True,
        "cache_prompt": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repeat_penalty": 1.0,
        "samplers": ["top_k", "top_p", "min_p", "temperature"],
        "logit_bias": [[7, -100.0]],
        "seed": 3,
        "grammar": "%llguidance {}\nstart: <[1]>",
        "n_probs": 1,
    }


async def test_a_grammar_that_has_its_head_is_sent_as_it_is(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    await sample(client, ask(grammar="%llguidance {}\nstart: <[1]>"))
    assert engine.bodies("/completion")[-1]["grammar"] == "%llguidance {}\nstart: <[1]>"


async def test_a_grammar_that_does_not_compile_is_the_requests_fault(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("unmasked"))
    with pytest.raises(InvalidGrammar, match="does not take the request's grammar"):
        await sample(client, ask(grammar="start: nonsense("))


async def test_a_refusal_is_the_requests(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/completion", status(400, '{"error": {"message": "bad seed"}}'))
    with pytest.raises(Rejected, match="bad seed"):
        await sample(client, ask())


async def test_an_error_in_the_stream_is_read(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("error"))
    with pytest.raises(BackendFailed, match="Compute error"):
        await sample(client, ask())


async def test_a_body_of_another_version_is_no_fault_of_the_request(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", status(422, '{"detail": "field required"}'))
    with pytest.raises(EngineFault, match="field required"):
        await sample(client, ask())


async def test_it_is_a_backend_by_name(engine: FakeEngine) -> None:
    config = BackendConfig(None, {"url": engine.url}, encode, lambda ids: "", lambda: None)
    backend = create("llama-cpp", config)
    await backend.start()
    assert joined([chunk async for chunk in backend.generate(ask())]) == (200005, 17196, 200002)
    await backend.stop()
