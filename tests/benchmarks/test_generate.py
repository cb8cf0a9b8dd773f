"""`generate` as an engine: requests that come together are one batch, and each gets its tokens."""

import asyncio
from typing import Any

import httpx
import pytest
import torch

from benchmarks.library.clients import Answer
from benchmarks.library.clients import usage as usage_of
from benchmarks.library.generate import app


class Counting:
    """A model that samples 0, 1, 2, … for each row, and keeps what it was called with."""

    def __init__(self) -> None:
        self.batches: list[torch.Tensor] = []

    def generate(self, ids: torch.Tensor, *, attention_mask: torch.Tensor, **options: Any) -> None:
        self.batches.append(ids * attention_mask)
        streamer = options["streamer"]
        streamer.put(ids)
        for step in range(options["max_new_tokens"]):
            streamer.put(torch.full((len(ids),), step))
        streamer.end()


@pytest.fixture
def model() -> Counting:
    return Counting()


async def complete(model: Counting, *bodies: dict[str, Any]) -> list[bytes]:
    transport = httpx.ASGITransport(app(model))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answers = await asyncio.gather(*(client.post("/v1/completions", json=b) for b in bodies))
    return [answer.content for answer in answers]


async def test_requests_that_come_together_are_one_padded_batch(model: Counting) -> None:
    await complete(model, {"prompt": [7, 8, 9], "max_tokens": 1}, {"prompt": [5], "max_tokens": 1})
    assert [batch.tolist() for batch in model.batches] == [[[7, 8, 9], [0, 0, 5]]]


async def test_each_request_gets_as_many_tokens_as_it_asks_for(model: Counting) -> None:
    long, short = await complete(
        model, {"prompt": [7], "max_tokens": 3}, {"prompt": [5], "max_tokens": 2}
    )
    assert [long.count(b'"text"'), short.count(b'"text"')] == [3, 2]
    assert usage_of(Answer(long, 0, 0)).output_tokens == 3


async def test_later_requests_wait_for_the_batch_before(model: Counting) -> None:
    await complete(model, {"prompt": [7], "max_tokens": 1})
    await complete(model, {"prompt": [5], "max_tokens": 1})
    assert [batch.tolist() for batch in model.batches] == [[[7]], [[5]]]
