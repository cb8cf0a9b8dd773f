"""The checks of the transformers backend with the model that is to be served."""

import asyncio
import time
from functools import partial
from typing import Any

import torch

from adapters.download import download
from adapters.local.model import loading
from adapters.local.options import parse_options
from benchmarks.gpu_check.engine import Loaded, Sizes, Target, ask, ask_all, decoding, request
from benchmarks.gpu_check.results import Check, Measured, Skipped

PACKED_20B = 16e9
WHOLE_CONTEXT = 131_072


def model_checks(model: Target, sizes: Sizes, *, packed: bool) -> list[Check]:
    """The checks, in their order. packed: whether the model is a gpt-oss-20b."""
    loaded = Loaded(model)
    streams, length = sizes.wide
    return [
        Check(
            "load",
            f"packed in {PACKED_20B / 1e9:.0f} GB" if packed else "",
            lambda: load(model, packed=packed),
        ),
        Check("start", "whole context", lambda: start(loaded)),
        Check("first and second request", "within 2 x", lambda: first_and_second(loaded)),
        *(
            Check(
                f"{count} stream{'s' if count > 1 else ''}",
                "",
                partial(rate, loaded, count, 32, sizes),
            )
            for count in sizes.streams
        ),
        Check(
            f"{streams} streams of {length} prompt tokens",
            "",
            lambda: rate(loaded, streams, length, sizes),
        ),
        Check(
            f"a prompt of {sizes.long[0]} tokens beside {sizes.long[1]} streams",
            f"no token of theirs takes more than {sizes.gap:g} s",
            lambda: long_prompt(loaded, sizes),
        ),
        Check("stop", "the memory is free", lambda: stop(loaded)),
    ]


async def load(model: Target, *, packed: bool) -> Measured:
    """The time to load the weights, and their bytes on the device."""
    chosen = parse_options({"device": model.device, **dict(model.options)})
    await asyncio.to_thread(download, model.model, PrintedProgress())
    began = time.perf_counter()
    loaded = await asyncio.to_thread(loading.load, model.model, chosen, lambda *_: None)
    seconds = time.perf_counter() - began
    weights = sum(
        one.numel() * one.element_size() for one in [*loaded.parameters(), *loaded.buffers()]
    )
    weights = max(weights, allocated(model.device))  # packed experts are no parameters
    del loaded
    model.free()
    return {"GB of weights": weights / 1e9, "s": seconds}, not packed or weights < PACKED_20B


class PrintedProgress:
    """Prints each tenth of a download, of 14 GB for gpt-oss-20b."""

    def __init__(self) -> None:
        self._tenths = -1

    def __call__(self, stage: str, fraction: float) -> None:
        if int(fraction * 10) > self._tenths:
            self._tenths = int(fraction * 10)
            print(f"{stage}: {self._tenths * 10} %", flush=True)


async def start(loaded: Loaded) -> Measured:
    """The time to start the backend, its first steps included, and the context that it has."""
    began = time.perf_counter()
    backend = await loaded.backend()
    room = backend.info.context_length
    whole = not loaded.target.device.startswith("cuda") or room >= WHOLE_CONTEXT
    return {"s": time.perf_counter() - began, "context": room}, whole


async def first_and_second(loaded: Loaded) -> Measured:
    """Whether what has to be compiled was compiled before the first request."""
    backend, model = await loaded.backend(), loaded.target
    answers = [await ask(backend, request(model.prompt(200, n), 16)) for n in (6, 7)]
    first, second = (answer.times[-1] for answer in answers)
    return {"first s": first, "second s": second}, first <= 2 * second


async def rate(loaded: Loaded, streams: int, prompt: int, sizes: Sizes) -> Measured:
    """Tokens per second while as many streams decode."""
    backend, model = await loaded.backend(), loaded.target
    await ask(backend, request(model.prompt(prompt, streams), sizes.tokens))
    # Prompts of earlier checks are in the cache.
    asked = [
        request(model.prompt(prompt, 1000 * streams + n), sizes.tokens) for n in range(streams)
    ]
    answers = await ask_all(backend, asked)
    decoded = sum(len(answer.token_ids) - 1 for answer in answers)
    first = max(answer.times[0] for answer in answers)
    last = max(answer.times[-1] for answer in answers)
    figures = {"tokens/s": decoded / (last - min(answer.times[0] for answer in answers))}
    return {**figures, "last first token s": first, "longest gap s": _gap(answers)}, True


def _gap(answers: list[Any]) -> float:
    return max(float(answer.gap) for answer in answers)


async def long_prompt(loaded: Loaded, sizes: Sizes) -> Measured:
    """The gaps in streams while another request has a long prompt."""
    length, streams = sizes.long
    backend, model = await loaded.backend(), loaded.target
    if backend.info.context_length < length + 8:
        raise Skipped(f"the context has room for {backend.info.context_length} tokens")
    asked = [request(model.prompt(32, n), sizes.tokens * 4) for n in range(streams)]
    async with decoding(backend, asked) as answers:
        long = await ask(backend, request(model.prompt(length, 9), 4))
        gap = _gap(await answers)
    return {"first token of it s": long.times[0], "longest gap s": gap}, gap <= sizes.gap


async def stop(loaded: Loaded) -> Measured:
    """What a stopped backend leaves in the memory of the device."""
    used = allocated(loaded.target.device)
    await loaded.close()
    left = allocated(loaded.target.device)
    return {"GB before": used / 1e9, "GB after": left / 1e9}, left <= used / 100


def allocated(device: str) -> int:
    """The bytes of tensors on a CUDA device, 0 for another device."""
    return int(torch.cuda.memory_allocated(device)) if device.startswith("cuda") else 0
