"""How the comparison of engines counts what they sampled."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import peers
from benchmarks.library.clients import Answer


def engine(*counts: int) -> Any:
    """An engine whose answers have these numbers of tokens, and take a second after the first."""
    usage = b'"prompt_tokens": 1, "completion_tokens": %d'
    answers = iter([Answer(usage % count, 1, 2) for count in counts])

    async def sample(prompt: list[int], tokens: int) -> Answer:
        return next(answers)

    return SimpleNamespace(name="ours", sample=sample, process=SimpleNamespace(cpu=0.0))


def loaded(*counts: int) -> peers.Load:
    return asyncio.run(peers.load(engine(*counts), len(counts), 4, 10, random.Random(0)))


def test_an_answer_that_ends_early_counts_with_its_own_tokens() -> None:
    assert loaded(10, 10, 3).tokens_per_second == 9 + 9 + 2


def test_many_answers_that_end_early_are_refused() -> None:
    with pytest.raises(SystemExit, match="ours ended 2 of 3 answers early"):
        loaded(10, 3, 3)
