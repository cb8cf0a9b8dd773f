"""The checks of the transformers backend with a small checkpoint."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from adapters.base import GenerationRequest, SamplingParams
from adapters.errors import BackendError, BackendFailed
from adapters.local.model import attention as attentions
from adapters.local.model import kernels
from adapters.local.model.kernels import HOPPER_ATTENTION
from benchmarks.gpu_check.engine import (
    Answer,
    Sizes,
    Target,
    ask,
    ask_all,
    decoding,
    difference,
    request,
)
from benchmarks.gpu_check.results import Check, Measured, Skipped, logged
from benchmarks.library.figures import ROOT

TOLERANCE = 0.25
"""Of logprobs, between sums in bfloat16 in another order: the median of several prompts."""
FACTOR, MARGIN = 2.0, 0.02
"""An attention may be so much further from float32 than eager attention in the same format is."""
EXACT = 1e-3
"""Of logprobs, between sums in float32 in another order. On a CPU, chunks made 0.00003 of it."""
LONG = 128
"""Tokens of a prompt that no other step has."""
LENGTHS = (20, 127, 128, 129, 300, 700)
"""Of prompts: short of, at and past a sliding window of 128."""
REAL_VOCABULARY = 100_000
JSON = r'start: "[" item ("," item)* "]"' + "\n" + r'item: "{\"k\":" /[0-9]+/ "}"'
WAITS = 2.0
"""16 rows may wait for the device so many times as often as one row."""
HOPPER = (9, 0)
WITH_GRAPHS = "decode_graphs=true dtype=bfloat16"
"""Options of the contract suite. Graphs need a flash attention, which needs half precision."""
_CONTRACT = "tests/adapters/test_contract.py"


def demo_checks(demo: Target, names: tuple[str, ...], sizes: Sizes) -> list[Check]:
    """Those that a small checkpoint is enough for. names: of the attentions to compare."""
    return [
        *(
            Check(
                f"attention {name} against float32 on the CPU",
                f"within {FACTOR:g} x eager's difference",
                partial(attention, demo, name),
            )
            for name in names
        ),
        Check(
            "prefix hit",
            f"cached, within {FACTOR:g} x the difference from float32",
            lambda: prefix_hit(demo),
        ),
        Check(
            "chunked prefill beside decode",
            f"within {FACTOR:g} x the difference from float32",
            lambda: chunked_prefill(demo),
        ),
        Check("contract suite", "all pass", lambda: contract_suite(demo.device)),
        Check(
            "contract suite with decode graphs",
            "all pass",
            lambda: contract_suite(demo.device, WITH_GRAPHS),
        ),
        Check("forced out-of-memory", "others and later requests are served", lambda: oom(demo)),
        Check(
            "JSON with top_p and logprobs",
            f"16 rows wait for the device at most {WAITS:g} times as often as one",
            lambda: masked(demo, sizes),
        ),
        Check(
            "decode graphs",
            f"used, logprobs within {TOLERANCE}",
            lambda: decode_graphs(demo, sizes),
        ),
    ]


def attention_names(device: str) -> tuple[str, ...]:
    """The attentions that `device` may get, and eager attention."""
    if not device.startswith("cuda"):
        return ("eager", attentions.NAME)
    capability = torch.cuda.get_device_capability(device)
    flash = (attentions.NAME,) if capability >= attentions.LEAST_CAPABILITY else ()
    return ("eager", *flash, *((HOPPER_ATTENTION,) if capability == HOPPER else ()))


async def attention(demo: Target, name: str) -> Measured:
    """Compare the first token's likeliest candidates, for prompts about a sliding window."""
    if name == HOPPER_ATTENTION:
        _need_kernels(name)
    exact = await _first_tokens(_exact(demo), attention="eager", dtype="float32")
    eager = await _first_tokens(demo, attention="eager")
    found = eager if name == "eager" else await _first_tokens(demo, attention=name)
    figures = {"difference": _typical(exact, found), "eager's": _typical(exact, eager)}
    return figures, figures["difference"] <= FACTOR * figures["eager's"] + MARGIN


def _need_kernels(repository: str) -> None:
    try:
        kernels.provide(repository)
    except BackendFailed as error:
        raise Skipped(str(error)) from error


def _exact(demo: Target) -> Target:
    return Target("cpu", demo.model, demo.vocab, demo.options)


async def _first_tokens(target: Target, **options: str) -> list[dict[int, float]]:
    prompts = [target.prompt(length, seed) for length in LENGTHS for seed in (1, 2)]
    asked = [request(prompt, 1, logprobs=20) for prompt in prompts]
    async with target.backend(**options, cache_tokens="4096") as backend:
        return [answer.tops[0] for answer in await ask_all(backend, asked)]


async def _one_by_one(
    target: Target, asked: list[GenerationRequest], **options: str
) -> list[Answer]:
    """The answers of a backend that has no other request meanwhile."""
    async with target.backend(**options, cache_tokens="4096") as backend:
        return [await ask(backend, one) for one in asked]


def _typical(exact: list[dict[int, float]], found: list[dict[int, float]]) -> float:
    """The median: where two experts are nearly equal, rounding picks the other, and all differs."""
    return statistics.median(_differences(exact, found))


def _differences(one: list[dict[int, float]], other: list[dict[int, float]]) -> list[float]:
    return [difference(*pair) for pair in zip(one, other, strict=True)]


async def _agree(
    demo: Target, asked: list[GenerationRequest], alone: list[Answer], found: list[Answer]
) -> Measured:
    """Compare the first token's likeliest candidates with those of each request alone.

    Rounding may make them differ about as much as they differ from float32. Where they do not
    differ from float32, they have to be the same.
    """
    exact = await _one_by_one(_exact(demo), asked, attention="eager", dtype="float32")
    tops = [[answer.tops[0] for answer in answers] for answers in (exact, alone, found)]
    rounding = _typical(tops[0], tops[1])
    differences = _differences(tops[1], tops[2])
    typical, largest = statistics.median(differences), max(differences)
    figures = {"difference": typical, "largest": largest, "from float32": rounding}
    if rounding <= EXACT:
        return figures, largest <= EXACT
    return figures, typical <= FACTOR * rounding


async def prefix_hit(demo: Target) -> Measured:
    """Prompts that come again are looked up, and answered alike."""
    asked = [request(demo.prompt(700, seed), 1, logprobs=20) for seed in range(2, 6)]
    twice = await _one_by_one(demo, [one for one in asked for _ in range(2)])
    first, second = twice[::2], twice[1::2]
    figures, holds = await _agree(demo, asked, first, second)
    cached = min(answer.cached for answer in second)
    return {"cached tokens": cached, **figures}, holds and cached >= 512


async def chunked_prefill(demo: Target) -> Measured:
    """Prompts of several steps, computed while another request decodes, against each alone."""
    prompts = [demo.prompt(length, seed) for length in (300, 700) for seed in (3, 4, 5)]
    asked = [request(prompt, 1, logprobs=20) for prompt in prompts]
    alone = await _one_by_one(demo, asked, batch_tokens="2048")
    other = request(demo.prompt(50, 4), 64)  # decodes for longer than all prompts take
    async with (
        demo.backend(cache_tokens="4096", batch_tokens="64") as backend,
        decoding(backend, [other]) as answers,
    ):
        beside = await ask_all(backend, asked)
        await answers
    return await _agree(demo, asked, alone, beside)


async def contract_suite(device: str, options: str = "") -> Measured:
    """What every backend owes the server, on this device. options: `NAME=VALUE` of the backend."""
    if "decode_graphs" in options and not device.startswith("cuda"):
        raise Skipped("decode graphs need CUDA")
    file = ROOT / _CONTRACT
    if not file.exists():
        raise Skipped("the tests are not here: run it in a checkout")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "pytest", "-q", "--maxfail=5", "-k", "transformers", str(file)],
        cwd=ROOT,
        env={**os.environ, "TEST_DEVICE": device, "TEST_BACKEND_OPTIONS": options},
        capture_output=True,
        text=True,
    )
    if "No module named pytest" in done.stderr:
        raise Skipped("pytest is not installed")
    lines = done.stdout.strip().splitlines() or [done.stderr[-200:]]
    figures = {"pytest": lines[-1].strip("= ")}
    if done.returncode:  # pytest's summary: a line for each test, with its error
        broken = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        figures["broken"] = "; ".join(one.replace(f"{_CONTRACT}::", "") for one in broken)
    return figures, done.returncode == 0


async def oom(demo: Target) -> Measured:
    """A prompt whose step has no memory ends alone: a request beside it and later ones go on."""
    async with demo.backend(cache_tokens="4096") as backend:
        long = request(demo.prompt(LONG, 6), 2)
        async with decoding(backend, [request(demo.prompt(20, 5), 64)]) as answers:
            with _next_long_step_fails():
                try:
                    await ask(backend, long)
                    ended = "no error"
                except BackendError as error:
                    ended = type(error).__name__
            others = len((await answers)[0].token_ids)
        later = len((await ask(backend, long)).token_ids)
    figures = {"the request": ended, "tokens beside it": others, "tokens later": later}
    return figures, ended != "no error" and (others, later) == (64, 2)


@contextmanager
def _next_long_step_fails() -> Iterator[None]:
    """A context in which the next step with a long prompt has no memory."""
    from transformers import GptOssForCausalLM

    original = GptOssForCausalLM.forward

    def forward(self: Any, **arguments: Any) -> Any:
        if arguments["input_ids"].shape[1] < LONG:
            return original(self, **arguments)
        GptOssForCausalLM.forward = original  # type: ignore[method-assign]
        raise torch.OutOfMemoryError("CUDA out of memory (forced by this check)")

    GptOssForCausalLM.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        GptOssForCausalLM.forward = original  # type: ignore[method-assign]


async def masked(demo: Target, sizes: Sizes) -> Measured:
    """Count how often the host waits for the device while rows are masked and sampled."""
    rows, steps = min(16, max(sizes.streams)), 16
    fields: dict[str, Any] = {"grammar": JSON, "logprobs": 3}
    if demo.vocab < REAL_VOCABULARY:
        fields.pop("grammar")  # grammars are over the real vocabulary
    sampling = SamplingParams(top_p=0.95)
    asked = [
        request(demo.prompt(20, row), steps, **fields, sampling=sampling) for row in range(rows)
    ]
    waits = []
    async with demo.backend(cache_tokens="4096") as backend:
        await ask_all(backend, asked)  # what is compiled at first waits, too
        for portion in (asked[:1], asked):
            with _synchronisations(demo.device) as counted:
                began = time.perf_counter()
                await ask_all(backend, portion)
                seconds = time.perf_counter() - began
            waits.append(len(counted) / steps)
    one, many = waits
    figures = {"waits a step with 1 row": one, f"with {rows}": many}
    return {**figures, "ms a step": seconds / steps * 1000}, many <= WAITS * one


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


async def decode_graphs(demo: Target, sizes: Sizes) -> Measured:
    """Compare steps that are replayed from graphs with others: what they compute, and the speed."""
    asked = [request(demo.prompt(length, 7), sizes.tokens, logprobs=20) for length in (200, 20, 21)]
    with logged() as lines:
        try:
            graphs, speed = await _answer_and_speed(demo, asked, decode_graphs="true")
        except BackendFailed as error:
            raise Skipped(str(error)) from error
    steps, speed_without = await _answer_and_speed(demo, asked, decode_graphs="false")
    # The first step has prompts, and no graph. Later ones differ where two tokens are nearly equal.
    pairs = zip(steps, graphs, strict=True)
    typical = statistics.median(difference(one.tops[1], other.tops[1]) for one, other in pairs)
    off = [line.removeprefix("WARNING: ") for line in lines if "switched off" in line]
    figures = {
        "difference": typical,
        "tokens/s": speed,
        "without": speed_without,
        "equal tokens": [one.token_ids for one in steps] == [one.token_ids for one in graphs],
    }
    return figures | ({"warning": off[0]} if off else {}), not off and typical <= TOLERANCE


async def _answer_and_speed(
    demo: Target, asked: list[GenerationRequest], **options: str
) -> tuple[list[Answer], float]:
    """The answers of several at once, and tokens per second of the first one alone."""
    async with demo.backend(cache_tokens="4096", **options) as backend:
        await ask_all(backend, asked)  # captures graphs
        alone = await ask(backend, replace(asked[0], logprobs=None))
        answers = await ask_all(backend, asked)
    return answers, (len(alone.times) - 1) / (alone.times[-1] - alone.times[0])
