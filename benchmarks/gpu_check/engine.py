"""The transformers backend under check, and what is asked of it."""

import asyncio
import gc
import random
import time
import weakref
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from adapters.base import GenerationRequest, SamplingParams
from adapters.local.backend import LocalBackend
from benchmarks.library.backends import config

_ATTEMPTS = 5
GREEDY = SamplingParams(temperature=0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked. streams: of the throughput. wide: streams and prompt tokens of the widest
    load. long: tokens of the prompt beside others, and how many these are. gap: seconds that a
    token of theirs may take.
    """

    streams: tuple[int, ...]
    wide: tuple[int, int]
    long: tuple[int, int]
    tokens: int
    gap: float


ON_CUDA = Sizes((1, 16, 64), (64, 8192), (100_000, 16), 128, 2.0)
ON_CPU = Sizes((1, 4), (4, 256), (2048, 2), 8, 60.0)


@dataclass(frozen=True, slots=True)
class Target:
    """What is checked. model: a checkpoint's folder or name; vocab: prompts' ids are below it."""

    device: str
    model: str
    vocab: int = 190_000
    options: tuple[tuple[str, str], ...] = ()

    @asynccontextmanager
    async def backend(self, **options: str) -> AsyncIterator[LocalBackend]:
        """A started backend, stopped after the block."""
        chosen = {"device": self.device, **dict(self.options), **options}
        backend = LocalBackend(config(self.model, chosen))
        try:
            await backend.start()
            yield backend
        finally:
            engine = backend._engine
            ended = (lambda: None) if engine is None else weakref.ref(engine)
            del engine
            await backend.stop()
            for _ in range(_ATTEMPTS):
                self.free()
                if ended() is None:
                    break
                await asyncio.sleep(0.05)  # the thread that stopped it still refers to it

    def free(self) -> None:
        """Return the memory of what is no longer used to the device: the next load counts it."""
        gc.collect()  # a stopped engine references itself
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()

    def prompt(self, length: int, seed: int) -> tuple[int, ...]:
        """As many ids, drawn anew for each seed."""
        source = random.Random(f"{length} {seed}")
        return tuple(source.randrange(self.vocab) for _ in range(length))


class Loaded:
    """A backend for several checks: the first one starts it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._opened = AsyncExitStack()
        self._backend: LocalBackend | None = None

    async def backend(self) -> LocalBackend:
        """The started backend. Raises the error of its start, each time."""
        if self._backend is None:
            self._backend = await self._opened.enter_async_context(self.target.backend())
        return self._backend

    async def close(self) -> None:
        """Stop the backend and free its memory."""
        self._backend = None
        await self._opened.aclose()


@dataclass(frozen=True, slots=True)
class Answer:
    """token_ids: sampled. times: seconds from the request to each chunk. cached: prompt tokens."""

    token_ids: tuple[int, ...]
    times: tuple[float, ...]
    tops: tuple[dict[int, float], ...]
    cached: int

    @property
    def gap(self) -> float:
        """The longest wait for a token after the first."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return max((later - earlier for earlier, later in pairs), default=0.0)


def request(prompt: tuple[int, ...], tokens: int, **fields: Any) -> GenerationRequest:
    """A greedy request that ends by length."""
    return replace(GenerationRequest("c", prompt, tokens, frozenset(), GREEDY), **fields)


async def ask(
    backend: LocalBackend, asked: GenerationRequest, started: asyncio.Event | None = None
) -> Answer:
    """Sample the whole answer. started: set when the first token has come, or none will."""
    began = time.perf_counter()
    ids: list[int] = []
    times: list[float] = []
    tops: list[dict[int, float]] = []
    cached = 0
    try:
        async for chunk in backend.generate(asked):
            ids += chunk.token_ids
            times.append(time.perf_counter() - began)
            tops += [dict(entry.top) for entry in chunk.logprobs or ()]
            cached += chunk.cached_tokens or 0
            if started is not None and ids:
                started.set()
    finally:
        if started is not None:
            started.set()
    return Answer(tuple(ids), tuple(times), tuple(tops), cached)


async def ask_all(backend: LocalBackend, asked: Iterable[GenerationRequest]) -> list[Answer]:
    """Sample all at once."""
    return list(await asyncio.gather(*(ask(backend, one) for one in asked)))


@asynccontextmanager
async def decoding(
    backend: LocalBackend, asked: Iterable[GenerationRequest]
) -> AsyncIterator["asyncio.Future[list[Answer]]"]:
    """A context in which requests have their first tokens; the value has their answers later."""
    pairs = [(one, asyncio.Event()) for one in asked]
    answers = asyncio.gather(*(ask(backend, one, started) for one, started in pairs))
    try:
        for _, started in pairs:
            await started.wait()
        yield answers
    finally:
        answers.cancel()
        await asyncio.gather(answers, return_exceptions=True)


def difference(one: dict[int, float], other: dict[int, float]) -> float:
    """The largest difference of logprobs of tokens that both list."""
    shared = one.keys() & other.keys()
    return max((abs(one[token] - other[token]) for token in shared), default=float("inf"))
