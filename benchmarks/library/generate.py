"""transformers' `generate` behind `POST /v1/completions`: what a program has without an engine.

    python -m benchmarks.library.generate MODEL --port N

The requests that wait when a batch ends become the next batch, padded to the longest prompt. A
request that comes later waits for the end of the whole batch: `generate` cannot add it.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer

from adapters.local.model.precision import multiplies_bfloat16

GATHERING = 0.05
"""Seconds in which requests that come together become one batch."""
CHUNK = 512
"""Tokens of a prompt for each step: attention over a whole long prompt does not fit in memory."""


@dataclass(eq=False)
class Waiting:
    """A request. tokens: how many to sample. sampled: gets these tokens, then None."""

    prompt: list[int]
    tokens: int
    sampled: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)


class Batcher:
    """Gathers requests, and has one batch after another sampled in a thread."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._waiting: list[Waiting] = []
        self._free = asyncio.Lock()

    async def sample(self, prompt: list[int], tokens: int) -> AsyncIterator[int]:
        """Sample `tokens` tokens for the prompt."""
        one = Waiting(prompt, tokens)
        self._waiting.append(one)
        work = asyncio.create_task(self._batch_of(one))
        while (token := await one.sampled.get()) is not None:
            yield token
        await work

    async def _batch_of(self, one: Waiting) -> None:
        """Sample the batch of a request, unless it is sampled already. Raises the model's error."""
        async with self._free:
            if one not in self._waiting:
                return
            await asyncio.sleep(GATHERING)
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(generate, self._model, batch, asyncio.get_running_loop())
            finally:
                for each in batch:
                    each.sampled.put_nowait(None)


class Streamer(BaseStreamer):
    """Passes the tokens of each step to the requests, without the first `put`: the prompts."""

    def __init__(self, batch: Sequence[Waiting], loop: asyncio.AbstractEventLoop) -> None:
        self._batch = batch
        self._loop = loop
        self._sampled = -1

    def put(self, value: torch.Tensor) -> None:
        self._sampled += 1
        if self._sampled == 0:
            return
        for one, token in zip(self._batch, value.tolist(), strict=True):
            if self._sampled <= one.tokens:
                self._loop.call_soon_threadsafe(one.sampled.put_nowait, token)

    def end(self) -> None:
        """The batch ends when `generate` returns."""


def generate(model: Any, batch: Sequence[Waiting], loop: asyncio.AbstractEventLoop) -> None:
    """Sample all tokens of a batch at temperature 1, with no end before."""
    longest = max(len(one.prompt) for one in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, one in enumerate(batch):
        ids[row, longest - len(one.prompt) :] = torch.tensor(one.prompt)
        mask[row, longest - len(one.prompt) :] = 1
    model.generate(
        ids,
        attention_mask=mask,
        do_sample=True,
        top_k=0,
        top_p=1.0,
        max_new_tokens=max(one.tokens for one in batch),
        eos_token_id=-1,
        pad_token_id=0,
        prefill_chunk_size=CHUNK if longest > CHUNK else None,
        streamer=Streamer(batch, loop),
    )


def app(model: Any) -> Starlette:
    """The API: completions of token ids, streamed."""
    batcher = Batcher(model)

    async def complete(request: Request) -> StreamingResponse:
        body = await request.json()

        async def events() -> AsyncIterator[str]:
            count = 0
            async for token in batcher.sample(body["prompt"], body["max_tokens"]):
                count += 1
                yield f"data: {json.dumps({'choices': [{'text': f'<{token}>'}]})}\n\n"
            usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": count}
            yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/health", lambda request: PlainTextResponse("")),
            Route("/v1/completions", complete, methods=["POST"]),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    # As the backend transformers: a CPU that cannot multiply bfloat16 is faster with float32.
    dtype = torch.bfloat16 if multiplies_bfloat16() else torch.float32
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype)
    uvicorn.run(app(model), port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
