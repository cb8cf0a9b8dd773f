"""The checks of the transformers backend."""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from adapters.errors import BackendError
from adapters.local import loading
from adapters.local.options import parse_options
from benchmarks.gpu_check.engine import Sizes, Target, ask, ask_all, difference, request
from benchmarks.gpu_check.results import Check, Skipped

ROOT = Path(__file__).parents[2]
TOLERANCE = 0.25
"""Of logprobs, between sums in bfloat16 in another order. On a CPU, chunks made 0.09 of it."""
FACTOR, MARGIN = 2.0, 0.02
"""An attention may be so much further from float32 than eager attention in the same format is."""
LENGTHS = (20, 127, 128, 129, 300, 700)
"""Of prompts: short of, at and past a sliding window of 128."""
PACKED_20B = 16e9
WHOLE_CONTEXT = 131_072
JSON = r'start: "[" item ("," item)* "]"' + "\n" + r'item: "{\"k\":" /[0-9]+/ "}"'

PICKED = "that the device gets"

Measured = tuple[dict[str, Any], bool]


def demo_checks(demo: Target, attentions: tuple[str, ...], sizes: Sizes) -> list[Check]:
    """Those that the demo checkpoint is enough for."""
    return [
        *(
            Check(
                f"attention {name or PICKED} against float32 on the CPU",
                f"within {FACTOR:g} x eager's difference",
                lambda name=name: attention(demo, name),
            )
            for name in attentions
        ),
        Check("prefix hit", f"cached, logprobs within {TOLERANCE}", lambda: prefix_hit(demo)),
        Check(
            "chunked prefill beside decode",
            f"logprobs within {TOLERANCE}",
            lambda: chunked_prefill(demo),
        ),
        Check("contract suite", "all pass", lambda: contract_suite(demo.device)),
        Check("forced out-of-memory", "others and later requests are served", lambda: oom(demo)),
        Check(
            "JSON with top_p and logprobs",
            f"at most {sizes.syncs:g} waits for the device in a step",
            lambda: masked(demo, sizes),
        ),
    ]


def model_checks(model: Target, sizes: Sizes, *, packed: bool) -> list[Check]:
    """Those of the model that is to be served. packed: whether it is a gpt-oss-20b."""
    bound = "packed in 16 GB, whole context" if packed else "whole context"
    return [
        Check("load", bound, lambda: load(model, packed=packed)),
        Check("first and second request", "within 2 x", lambda: first_and_second(model)),
        *(
            Check(f"{streams} streams", "", lambda streams=streams: rate(model, streams, 32, sizes))
            for streams in sizes.streams
        ),
        Check(
            f"{sizes.wide[0]} streams of {sizes.wide[1]} prompt tokens",
            "",
            lambda: rate(model, *sizes.wide, sizes),
        ),
        Check(
            f"a prompt of {sizes.long[0]} tokens beside {sizes.long[1]} streams",
            f"no token of theirs takes more than {sizes.gap:g} s",
            lambda: long_prompt(model, sizes),
        ),
    ]


async def attention(demo: Target, name: str) -> Measured:
    """Compare the first token's likeliest candidates, for prompts about a sliding window."""
    reference = Target("cpu", demo.model, demo.vocab, demo.options)
    exact = await _first_tokens(reference, attention="eager", dtype="float32")
    eager = await _first_tokens(demo, attention="eager")
    found = eager if name == "eager" else await _first_tokens(demo, attention=name)
    figures = {"difference": _typical(exact, found), "eager's": _typical(exact, eager)}
    return figures, figures["difference"] <= FACTOR * figures["eager's"] + MARGIN


async def _first_tokens(target: Target, **options: str) -> list[dict[int, float]]:
    prompts = [target.prompt(length, seed) for length in LENGTHS for seed in (1, 2)]
    asked = [request(prompt, 1, logprobs=20) for prompt in prompts]
    async with target.backend(**options, cache_tokens="4096") as backend:
        return [answer.tops[0] for answer in await ask_all(backend, asked)]


def _typical(exact: list[dict[int, float]], found: list[dict[int, float]]) -> float:
    """The median: where two experts are nearly equal, rounding picks the other, and all differs."""
    pairs = zip(exact, found, strict=True)
    return statistics.median(difference(one, other) for one, other in pairs)


async def prefix_hit(demo: Target) -> Measured:
    """A prompt that comes again is looked up, and answered alike."""
    # Pages are shared after a step that follows them: one token alone would leave none.
    asked = request(demo.prompt(700, 2), 4, logprobs=20)
    async with demo.backend(cache_tokens="4096") as backend:
        first, second = await ask(backend, asked), await ask(backend, asked)
    worst = difference(first.tops[0], second.tops[0])
    figures = {"cached tokens": second.cached, "difference": worst}
    return figures, second.cached >= 512 and worst <= TOLERANCE


async def chunked_prefill(demo: Target) -> Measured:
    """A prompt of several steps, computed while another request decodes, against one alone."""
    asked = request(demo.prompt(700, 3), 1, logprobs=20)
    other = request(demo.prompt(50, 4), 64)
    async with demo.backend(cache_tokens="4096", batch_tokens="2048") as backend:
        alone = await ask(backend, asked)
    async with demo.backend(cache_tokens="4096", batch_tokens="64") as backend:
        decoding = asyncio.create_task(ask(backend, other))
        await asyncio.sleep(0)
        beside = await ask(backend, asked)
        await decoding
    worst = difference(alone.tops[0], beside.tops[0])
    return {"difference": worst}, worst <= TOLERANCE


async def contract_suite(device: str) -> Measured:
    """What every backend owes the server, on this device."""
    file = ROOT / "tests/adapters/test_contract.py"
    if not file.exists():
        raise Skipped("the tests are not here: run it in a checkout")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "pytest", "-q", "-x", "-k", "transformers", str(file)],
        cwd=ROOT,
        env={**os.environ, "TEST_DEVICE": device},
        capture_output=True,
        text=True,
    )
    if "No module named pytest" in done.stderr:
        raise Skipped("pytest is not installed")
    last = (done.stdout.strip().splitlines() or [done.stderr[-200:]])[-1]
    return {"pytest": last.strip("= ")}, done.returncode == 0


async def oom(demo: Target) -> Measured:
    """A step that has no memory ends its own requests; the engine goes on."""
    async with demo.backend(cache_tokens="4096") as backend:
        asked = request(demo.prompt(20, 5), 2)
        await ask(backend, asked)
        with _next_forward_fails():
            try:
                await ask(backend, asked)
                ended = "no error"
            except BackendError as error:
                ended = type(error).__name__
        later = await ask(backend, asked)
    return {"the request": ended, "tokens later": len(later.token_ids)}, ended != "no error"


@contextmanager
def _next_forward_fails() -> Iterator[None]:
    """While this holds, the next step of a gpt-oss finds no memory; those after it do."""
    from transformers import GptOssForCausalLM

    original = GptOssForCausalLM.forward

    def fail(*_: Any, **__: Any) -> Any:
        GptOssForCausalLM.forward = original
        raise torch.OutOfMemoryError("CUDA out of memory (forced by this check)")

    GptOssForCausalLM.forward = fail
    try:
        yield
    finally:
        GptOssForCausalLM.forward = original


async def masked(demo: Target, sizes: Sizes) -> Measured:
    """Count where the host waits for the device while 16 rows are masked and sampled."""
    rows, steps = min(16, max(sizes.streams)), 16
    fields: dict[str, Any] = {"grammar": JSON, "logprobs": 3}
    if demo.vocab < 100_000:
        fields.pop("grammar")  # grammars are over the real vocabulary
    async with demo.backend(cache_tokens="4096") as backend:
        asked = [
            request(demo.prompt(20, row), steps, **fields, sampling=_top_p()) for row in range(rows)
        ]
        await ask_all(backend, asked)  # what is compiled at first waits, too
        with _synchronisations(demo.device) as counted:
            began = time.perf_counter()
            await ask_all(backend, asked)
            seconds = time.perf_counter() - began
    each = len(counted) / steps
    return {"waits a step": each, "ms a step": seconds / steps * 1000}, each <= sizes.syncs


def _top_p() -> Any:
    from adapters.base import SamplingParams

    return SamplingParams(top_p=0.95)


@contextmanager
def _synchronisations(device: str) -> Iterator[list[str]]:
    """The waits for the device; none on a CPU, which has nothing to wait for."""
    found: list[str] = []
    show = warnings.showwarning

    def note(message: Any, *_: Any, **__: Any) -> None:
        if "synchroniz" in str(message):
            found.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        if device.startswith("cuda"):
            torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            if device.startswith("cuda"):
                torch.cuda.set_sync_debug_mode("default")
            warnings.showwarning = show


async def load(model: Target, *, packed: bool) -> Measured:
    """The bytes of the weights on the device, and the context that the cache then has room for."""
    chosen = parse_options({"device": model.device, **dict(model.options)})
    loaded = await asyncio.to_thread(loading.load, model.model, chosen, lambda *_: None)
    tensors = [*loaded.parameters(), *loaded.buffers()]
    weights = sum(one.numel() * one.element_size() for one in tensors)
    if model.device.startswith("cuda"):
        weights = max(weights, torch.cuda.memory_allocated(model.device))
    context = loaded.config.max_position_embeddings
    del loaded, tensors
    gc.collect()
    async with model.backend() as backend:
        room = backend.info.context_length
    figures = {"GB of weights": weights / 1e9, "context": room}
    whole = not model.device.startswith("cuda") or room >= min(context, WHOLE_CONTEXT)
    return figures, whole and (not packed or weights < PACKED_20B)


async def first_and_second(model: Target) -> Measured:
    """Whether what has to be compiled was compiled before the first request."""
    async with model.backend() as backend:
        answers = [await ask(backend, request(model.prompt(200, n), 16)) for n in (6, 7)]
    first, second = (answer.times[-1] for answer in answers)
    return {"first s": first, "second s": second}, first <= 2 * second


async def rate(model: Target, streams: int, prompt: int, sizes: Sizes) -> Measured:
    """Tokens per second while as many streams decode."""
    async with model.backend() as backend:
        asked = [request(model.prompt(prompt, n), sizes.tokens) for n in range(streams)]
        await ask_all(backend, asked[:1])
        answers = await ask_all(backend, asked)
    decoded = sum(len(answer.token_ids) - 1 for answer in answers)
    first = max(answer.times[0] for answer in answers)
    last = max(answer.times[-1] for answer in answers)
    figures = {"tokens/s": decoded / (last - min(answer.times[0] for answer in answers))}
    return {**figures, "last first token s": first, "longest gap s": _gap(answers)}, True


def _gap(answers: list[Any]) -> float:
    return max(float(answer.gap) for answer in answers)


async def long_prompt(model: Target, sizes: Sizes) -> Measured:
    """What streams notice of a long prompt that comes meanwhile."""
    length, streams = sizes.long
    async with model.backend() as backend:
        if backend.info.context_length < length + 8:
            raise Skipped(f"the context has room for {backend.info.context_length} tokens")
        asked = [request(model.prompt(32, n), sizes.tokens * 4) for n in range(streams)]
        running = asyncio.gather(*(ask(backend, one) for one in asked))
        await asyncio.sleep(0)
        long = await ask(backend, request(model.prompt(length, 9), 4))
        answers = await running
    gap = _gap(answers)
    return {"first token of it s": long.times[0], "longest gap s": gap}, gap <= sizes.gap
