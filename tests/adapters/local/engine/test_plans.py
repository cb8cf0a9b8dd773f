import asyncio
import functools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.engine import engine
from adapters.local.engine.plans import are_compiled, padded_tokens
from adapters.local.model.attention import PLANS
from adapters.local.model.cpu_attention import Plan
from tests.adapters.local.conftest import started
from tests.adapters.sampling import sample


def keys_read(plan: Plan) -> list[int]:
    """The numbers of keys of the parts."""
    rows = [one.keys for one in plan.groups] + [one.keys for one in plan.prompts]
    return [len(one) if isinstance(one, torch.Tensor) else one.stop - one.start for one in rows]


async def steps_of(
    config: BackendConfig, monkeypatch: pytest.MonkeyPatch, prompt: tuple[int, ...], **options: str
) -> list[dict[str, Any]]:
    """The arguments of the model in the steps of one request for two tokens."""
    async with started(config, **options) as backend:
        model = backend._engine._manager.model  # type: ignore[union-attr]
        steps: list[dict[str, Any]] = []

        def noted(forward: Callable[..., Any], **keywords: Any) -> Any:
            steps.append(keywords)
            return forward(**keywords)

        monkeypatch.setattr(model, "forward", functools.partial(noted, model.forward))
        assert await sample(backend, GenerationRequest("r", prompt, 2, frozenset()))
    return steps[:2]


async def test_steps_have_a_plan_for_each_kind_of_layers(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "are_compiled", lambda model: False)
    prefill, decode = await steps_of(small_config, monkeypatch, tuple(range(60)))
    assert prefill["input_ids"].shape == (1, 60)
    assert not any(plan.from_cache for plan in prefill[PLANS])
    assert all(plan.from_cache for plan in decode[PLANS])
    assert [*map(keys_read, prefill[PLANS])] == [[60], [60]]
    assert [*map(keys_read, decode[PLANS])] == [[61], [61]]
    assert sorted(plan.window or 0 for plan in decode[PLANS]) == [0, 128]


async def test_eager_attention_has_none(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = await steps_of(small_config, monkeypatch, (1, 2, 3), attention="eager")
    assert len(steps) == 2
    assert not any(PLANS in step for step in steps)


async def test_tokens_are_padded_to_numbers_that_recur(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "are_compiled", lambda model: True)
    prefill, decode = await steps_of(small_config, monkeypatch, tuple(range(100, 121)))
    assert prefill["input_ids"].tolist() == [[*range(100, 121), 0, 0, 0]]
    assert prefill["position_ids"].tolist() == [[*range(21), 0, 0, 0]]
    assert [plan.queries for plan in prefill[PLANS]] == [21, 21]
    assert decode["input_ids"].shape == decode["position_ids"].shape == (1, 1)


@pytest.mark.parametrize(
    ("dtype", "experts", "compiled"),
    [(torch.bfloat16, 4, True), (torch.bfloat16, 5, False), (torch.float32, 4, False)],
)
def test_small_models_of_bfloat16_are_compiled(
    dtype: torch.dtype, experts: int, compiled: bool
) -> None:
    config = SimpleNamespace(num_experts_per_tok=2, num_local_experts=experts)
    assert are_compiled(SimpleNamespace(config=config, dtype=dtype)) is compiled


@pytest.mark.parametrize("padded", [False, True])
async def test_steps_of_all_kinds_sample_what_eager_attention_samples(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch, padded: bool
) -> None:
    """Prompts in chunks, a shared prefix, and requests that decode meanwhile."""
    monkeypatch.setattr(engine, "are_compiled", lambda model: padded)
    source = random.Random(0)
    prefix = [source.randrange(1000) for _ in range(70)]
    prompts = [
        (*prefix[:kept], *(source.randrange(1000) for _ in range(length)))
        for kept, length in ((0, 3), (70, 9), (0, 200), (70, 150), (0, 1), (70, 20), (40, 40))
    ]

    async def sampled(**options: str) -> list[list[int]]:
        async with started(small_config, batch_tokens="64", **options) as backend:

            async def one(prompt: tuple[int, ...]) -> list[int]:
                greedy = SamplingParams(temperature=0)
                return await sample(
                    backend, GenerationRequest("r", prompt, 12, frozenset(), greedy)
                )

            return list(await asyncio.gather(*map(one, prompts)))

    assert await sampled() == await sampled(attention="eager")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 64, 65, 100, 128, 129, 512, 513, 4000])
def test_padding_is_an_eighth_at_most_and_keeps_few_numbers(count: int) -> None:
    padded = padded_tokens(count)
    assert count <= padded <= max(count + 7 if count > 4 else 4, count * 9 / 8)
    assert padded_tokens(padded) == padded


def test_a_few_numbers_serve_all_steps_of_some_streams() -> None:
    assert len({padded_tokens(count) for count in range(1, 129)}) == 20
