"""Tokens that grammars force, on the small checkpoint: the same answers in fewer steps."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.backend import LocalBackend
from harmony.vocab import RETURN
from tests.adapters.local.conftest import started
from tests.adapters.sampling import sample

CHOICES = range(500, 508)

pytestmark = pytest.mark.asyncio(loop_scope="module")


def grammar(runs: int, length: int, seed: int) -> str:
    """Runs of `length` tokens that have to come, with a choice after each, and the end."""
    source = Random(seed)
    choice = " | ".join(f"<[{token}]>" for token in CHOICES)
    parts = []
    for _ in range(runs):
        parts += [f"<[{source.randrange(400)}]>" for _ in range(length)]
        parts.append("choice")
    return f"%llguidance {{}}\nstart: {' '.join(parts)} <[{RETURN}]>\nchoice: {choice}\n"


def request(
    seed: int, prompt_tokens: int, *, logprobs: int | None, **fields: Any
) -> GenerationRequest:
    source = Random(seed)
    return GenerationRequest(
        f"r{seed}",
        tuple(source.randrange(400) for _ in range(prompt_tokens)),
        fields.pop("max_tokens", 100),
        frozenset({RETURN}),
        sampling=SamplingParams(temperature=0),
        grammar=grammar(fields.pop("runs", 2), fields.pop("length", 6), seed),
        logprobs=logprobs,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(local_config: BackendConfig) -> AsyncIterator[LocalBackend]:
    async with started(local_config) as backend:
        yield backend


async def sample_all(backend: LocalBackend, *, logprobs: int | None) -> list[list[int]]:
    requests = [request(seed, 2 + 20 * (seed % 2), logprobs=logprobs) for seed in range(8)]
    return list(await asyncio.gather(*[sample(backend, one) for one in requests]))


def count_steps(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of tokens of each step from now on."""
    engine: Any = backend._engine
    ios = engine._manager.batch_processor.inputs_and_outputs
    prepare, steps = ios.prepare_batch_tensors, []

    def counted(*arguments: Any, **fields: Any) -> None:
        prepare(*arguments, **fields)
        steps.append(ios.total_seqlen_q)

    monkeypatch.setattr(ios, "prepare_batch_tensors", counted)
    return steps


# A request for logprobs has every token sampled: what it gets is what the others must get.
@pytest.mark.parametrize("batch_tokens", ["4096", "16"])
async def test_forced_tokens_change_no_answer(
    local_config: BackendConfig, batch_tokens: str
) -> None:
    """With 16 tokens in a step, prompts and runs of eight requests are split."""
    async with started(local_config, batch_tokens=batch_tokens, batch_requests="8") as backend:
        together = await sample_all(backend, logprobs=None)
        assert together == await sample_all(backend, logprobs=0)
        assert {len(tokens) for tokens in together} == {2 * 7 + 1}


async def test_a_run_of_forced_tokens_takes_one_step(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(1, 20, logprobs=None, runs=3, length=10)
    steps = count_steps(backend, monkeypatch)
    tokens = await sample(backend, asked)
    assert len(tokens) == 3 * 11 + 1
    # The prompt, then each run with the token before it, and the last choice.
    assert steps[1:] == [10, 11, 11, 1]


async def test_the_limit_of_tokens_ends_a_run(backend: LocalBackend) -> None:
    asked = request(2, 20, logprobs=None, max_tokens=6, length=20)
    chunks = [chunk async for chunk in backend.generate(asked)]
    assert sum(len(chunk.token_ids) for chunk in chunks) == 6
    assert chunks[-1].finish_reason == "length"


async def test_a_cancelled_request_with_forced_tokens_leaves_the_others_alone(
    backend: LocalBackend,
) -> None:
    asked, other = request(3, 20, logprobs=None), request(4, 30, logprobs=None)
    expected = await sample(backend, other)

    async def cancelled() -> None:
        chunks = backend.generate(asked)
        await anext(chunks)
        await chunks.aclose()

    found, _ = await asyncio.gather(sample(backend, other), cancelled())
    assert found == expected


async def test_a_failed_step_is_repeated_with_its_forced_tokens(
    local_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that fails because of a prompt ends that request; other runs are computed again."""
    async with started(local_config, batch_tokens="16", batch_requests="4") as backend:
        others = [request(seed, 20, logprobs=None) for seed in (5, 6, 7)]
        expected = await asyncio.gather(*[sample(backend, one) for one in others])
        engine: Any = backend._engine
        processor = engine._manager.batch_processor
        compute = processor.model_runner.compute_batch
        failed: list[Any] = []

        def failing(model: Any, batch: Any) -> Any:
            states = [one.state for one in processor.inputs_and_outputs.requests_in_batch]
            decoding = [one for one in states if one.generated_tokens]
            if not failed and decoding and len(decoding) < len(states):
                failed.append(1)
                raise RuntimeError("a kernel failed")
            return compute(model, batch)

        monkeypatch.setattr(processor.model_runner, "compute_batch", failing)

        async def late() -> None:
            await asyncio.gather(
                *[sample(backend, request(8, 200, logprobs=None))], return_exceptions=True
            )

        found, _ = await asyncio.gather(
            asyncio.gather(*[sample(backend, one) for one in others], return_exceptions=True),
            late(),
        )
        assert failed
        assert [tokens for tokens in found if isinstance(tokens, list)]
        for tokens, right in zip(found, expected, strict=True):
            assert isinstance(tokens, Exception) or tokens == right
