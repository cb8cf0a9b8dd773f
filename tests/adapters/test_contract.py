"""What every backend owes the server (adapters/base.py). A new backend joins `BACKENDS`."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.base import (
    Backend,
    BackendConfig,
    GenerationChunk,
    GenerationRequest,
    SamplingParams,
)
from adapters.errors import BackendFailed, ContextTooLong
from adapters.registry import create
from harmony.tokenizer import encode_with_control
from harmony.vocab import RETURN, STOP_TOKENS

BACKENDS = ["scripted", "transformers"]
PROMPT = "<|start|>user<|message|>hello<|end|><|start|>assistant"
END_AT_ONCE = SamplingParams(logit_bias={RETURN: 100.0})
SCRIPT = [
    {"prompt_contains": "stop", "completion": "<|return|>"},
    {"completion": "<|channel|>final<|message|>" + "one two three " * 20},
]


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(name: str, tmp_path: Path, local_config: BackendConfig) -> BackendConfig:
    if name == "transformers":
        return local_config
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps(line) for line in SCRIPT))
    return dataclasses.replace(local_config, model=None, options={"script": str(script)})


@pytest.fixture
async def backend(name: str, config: BackendConfig) -> AsyncIterator[Backend]:
    backend = create(name, config)
    await backend.start()
    yield backend
    await backend.stop()


def ask(prompt: str = PROMPT, max_tokens: int = 8, **fields: Any) -> GenerationRequest:
    ids = tuple(encode_with_control(prompt))
    return GenerationRequest("r", ids, max_tokens, STOP_TOKENS, **fields)


async def run(backend: Backend, request: GenerationRequest) -> list[GenerationChunk]:
    return [chunk async for chunk in backend.generate(request)]


def tokens(chunks: list[GenerationChunk]) -> list[int]:
    return [token_id for chunk in chunks for token_id in chunk.token_ids]


async def test_the_info_says_what_runs(backend: Backend, name: str) -> None:
    assert backend.info.name == name
    assert backend.info.vocab_size == 201_088
    assert backend.info.context_length >= 1024


async def test_only_the_last_chunk_has_a_finish_reason(backend: Backend) -> None:
    chunks = await run(backend, ask())
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish_reason == "length"
    assert len(tokens(chunks)) == 8


async def test_a_stop_token_ends_the_generation_and_is_its_last_id(backend: Backend) -> None:
    chunks = await run(backend, ask(PROMPT + " stop", sampling=END_AT_ONCE))
    assert tokens(chunks) == [RETURN]
    assert chunks[-1].finish_reason == "stop"


async def test_only_the_first_chunk_tells_the_cached_tokens(backend: Backend) -> None:
    chunks = await run(backend, ask())
    assert chunks[0].cached_tokens == 0
    assert {chunk.cached_tokens for chunk in chunks[1:]} <= {None}


async def test_there_are_no_logprobs_unless_asked_for(backend: Backend) -> None:
    assert {chunk.logprobs for chunk in await run(backend, ask())} == {None}


async def test_each_token_has_its_logprob_and_at_most_as_many_rivals_as_asked(
    backend: Backend,
) -> None:
    for chunk in await run(backend, ask(logprobs=3)):
        assert chunk.logprobs is not None
        assert tuple(entry.token_id for entry in chunk.logprobs) == chunk.token_ids
        for entry in chunk.logprobs:
            assert entry.logprob <= 0
            assert 1 <= len(entry.top) <= 3
            assert list(entry.top) == sorted(entry.top, key=lambda rival: -rival[1])


async def test_a_request_that_exceeds_the_context_is_refused_before_it_runs(
    backend: Backend,
) -> None:
    generator = backend.generate(ask(max_tokens=backend.info.context_length))
    with pytest.raises(ContextTooLong) as refusal:
        await anext(generator)
    assert refusal.value.context_length == backend.info.context_length


async def test_many_run_at_once(backend: Backend) -> None:
    results = await asyncio.gather(*[run(backend, ask(max_tokens=n)) for n in range(1, 7)])
    assert [len(tokens(chunks)) for chunks in results] == [1, 2, 3, 4, 5, 6]


async def test_closing_a_generator_ends_it_and_leaves_the_backend_well(backend: Backend) -> None:
    generator = backend.generate(ask(max_tokens=50))
    await anext(generator)
    await generator.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(generator)
    await backend.check()
    assert len(tokens(await run(backend, ask()))) == 8


async def test_stopping_fails_what_is_in_flight(backend: Backend) -> None:
    generator = backend.generate(ask(max_tokens=50))
    await anext(generator)
    await backend.stop()
    with pytest.raises(BackendFailed):
        async for _ in generator:
            pass


async def test_a_stopped_backend_is_unhealthy_and_refuses(backend: Backend) -> None:
    await backend.check()
    await backend.stop()
    await backend.stop()
    with pytest.raises(BackendFailed):
        await backend.check()
    with pytest.raises(BackendFailed):
        await run(backend, ask())


async def test_a_start_that_fails_says_why_and_can_be_stopped(
    name: str, config: BackendConfig, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "nowhere")
    options = {"script": nowhere} if name == "scripted" else {}
    backend = create(name, dataclasses.replace(config, model=nowhere, options=options))
    with pytest.raises(BackendFailed, match="nowhere"):
        await backend.start()
    await backend.stop()
