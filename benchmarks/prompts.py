"""Measure prompts of different lengths: the transformers backend, vLLM's CPU build and `generate`.

    make test-vllm   # once: sets up .venv-vllm
    python -m benchmarks.prompts [--prompts 32 512 4096 20000 30000] [--streams 1 4 16 64]
                                 [--tokens 32] [--rounds 3] [--vllm-python .venv-vllm/bin/python]

Each engine has a process of its own, in which no HTTP is involved, and computes alone. In each
round every engine answers the same requests, in a random order of the engines. The prompts are
random tokens, so that no prompt is in a cache. After a round with one stream, the conversation
continues with 32 more tokens: its first token shows what the cache of prefixes saves.

A row has medians over the rounds: the time to the first token, tokens per second from the first to
the last one, processor seconds, and the peak of the memory of our process over that before the row.
`generate` computes all prompts of a row at once, with eager attention, so that long ones do not fit
the memory: these are left out, and so are rows of more than `--most-tokens` tokens in total.

On two idle cores the whole table takes 20 minutes, and `--prompts 20000 --streams 1` takes two.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from server.commands.backends import SPIN_COUNT

ROOT = Path(__file__).parents[1]
PYTHON_OF_VLLM = ROOT / ".venv-vllm/bin/python"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "GOMP_SPINCOUNT": SPIN_COUNT,
    "OMP_WAIT_POLICY": "passive",  # engines that wait take no processor time from the others
    "PYTHONPATH": str(ROOT),
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
}
MORE_TOKENS = 32
MARGIN_TOKENS = 2048
HEADS = 8
MOST_SCORES = 1e9
"""Bytes of attention scores of one layer that `generate` may write."""


@dataclass(frozen=True, slots=True)
class Result:
    """first: seconds to the first token, the median of all streams. rest: tokens per second after
    the last first token. processor: seconds. peak: bytes over the memory before. again: seconds to
    the first token of the continued conversation, None for several streams.
    """

    first: float
    rest: float
    processor: float
    peak: int
    again: float | None


Answer = Callable[[list[list[int]], int], "tuple[list[float], float, list[list[int]]]"]
"""From prompts and a number of tokens to the times of the first tokens, that of the last one, and
the tokens. Times are seconds from the beginning."""


def backend_answers(name: str, options: dict[str, str]) -> Answer:
    """Answers of the backend `name` of this project."""
    from adapters.base import BackendConfig, GenerationRequest, SamplingParams
    from adapters.registry import create
    from demo.checkpoint import ensure_random
    from harmony.tokenizer import decode, encode_with_control
    from server.commands.backends import mask_tokenizer

    folder = str(ensure_random())
    backend = create(
        name, BackendConfig(folder, options, encode_with_control, decode, mask_tokenizer)
    )
    runner = asyncio.Runner()
    runner.run(backend.start())

    async def one(prompt: list[int], tokens: int, start: float) -> tuple[float, list[int]]:
        greedy = SamplingParams(temperature=0)
        first, sampled = 0.0, list[int]()
        request = GenerationRequest("b", tuple(prompt), tokens, frozenset(), greedy)
        async for chunk in backend.generate(request):
            first = first or time.perf_counter() - start
            sampled += chunk.token_ids
        return first, sampled

    async def all_of(prompts: list[list[int]], tokens: int) -> Any:
        start = time.perf_counter()
        pairs = await asyncio.gather(*[one(prompt, tokens, start) for prompt in prompts])
        last = time.perf_counter() - start
        return [first for first, _ in pairs], last, [sampled for _, sampled in pairs]

    return lambda prompts, tokens: runner.run(all_of(prompts, tokens))


def generate_answers() -> Answer:
    """Answers of `model.generate` with one batch of all prompts."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.generation.streamers import BaseStreamer

    from demo.checkpoint import ensure_random

    class Clock(BaseStreamer):
        """Its first call has the prompts, its second one the first tokens."""

        def __init__(self) -> None:
            self.times: list[float] = []

        def put(self, value: Any) -> None:
            self.times.append(time.perf_counter())

        def end(self) -> None:
            pass

    load: Any = AutoModelForCausalLM.from_pretrained
    model = load(str(ensure_random()), dtype="auto", attn_implementation="eager")

    def answer(prompts: list[list[int]], tokens: int) -> Any:
        ids = torch.tensor(prompts)
        clock, start = Clock(), time.perf_counter()
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            # A streamer is for one prompt; several ones give the time of the whole only.
            streamer=clock if len(prompts) == 1 else None,
        )
        last = time.perf_counter() - start
        first = clock.times[1] - start if clock.times else last
        return [first] * len(prompts), last, output[:, ids.shape[1] :].tolist()

    return answer


def work(engine: str, options: dict[str, str]) -> None:
    """Answer lines of standard input on standard output, until it ends."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    answer = generate_answers() if engine == "generate" else backend_answers(engine, options)
    answer([[1, 2, 3]], 4)
    print("ready", file=output, flush=True)
    for line in sys.stdin:
        prompts, tokens = json.loads(line)
        print(json.dumps(asdict(measured(answer, prompts, tokens))), file=output, flush=True)
    os._exit(0)  # engines in other processes end with this one


def measured(answer: Answer, prompts: list[list[int]], tokens: int) -> Result:
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    processor = processor_seconds()
    firsts, last, sampled = answer(prompts, tokens)
    processor = processor_seconds() - processor
    peak = memory("VmHWM") - before
    again = None
    if len(prompts) == 1:
        more = [place + 7 for place in range(MORE_TOKENS)]
        again = answer([prompts[0] + sampled[0] + more], 2)[0][0]
    # `generate` does not show the first tokens of several prompts.
    begin = max(firsts) if max(firsts) < last else 0.0
    rest = sum(len(one) - 1 for one in sampled) / (last - begin)
    return Result(statistics.median(firsts), rest, processor, peak, again)


def memory(name: str) -> int:
    """The bytes of the entry `name` of this process's status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def processor_seconds() -> float:
    """The processor time of this process and of those that it has started."""
    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *here.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


@contextmanager
def opened(engine: str, python: str, options: dict[str, str]) -> Iterator[Any]:
    """A function from prompts and tokens to the `Result` of an engine in its own process."""
    command = [python, "-m", "benchmarks.prompts", "--work", engine, json.dumps(options)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | os.environ,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(prompts: list[list[int]], tokens: int) -> Result:
            print(json.dumps([prompts, tokens]), file=stdin, flush=True)
            return Result(**json.loads(stdout.readline()))

        try:
            if stdout.readline() != "ready\n":
                raise SystemExit(f"{engine} did not start")
            yield ask
        finally:
            stdin.close()


def row(results: list[Result]) -> str:
    first, rest, processor = (
        statistics.median(getattr(one, name) for one in results)
        for name in ("first", "rest", "processor")
    )
    again = [one.again for one in results if one.again is not None]
    second = f"{statistics.median(again):7.2f}" if again else "      -"
    peak = statistics.median(one.peak for one in results) / 2**20
    return f"{first:8.3f} {rest:9.1f} {processor:8.2f} {second} {peak:8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, nargs="+", default=[32, 512, 4096, 20_000, 30_000])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-tokens", type=int, default=140_000)
    parser.add_argument("--engines", nargs="+", default=["transformers", "vllm", "generate"])
    parser.add_argument("--vllm-python", default=str(PYTHON_OF_VLLM))
    parser.add_argument("--work", nargs=2, metavar=("ENGINE", "OPTIONS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work[0], json.loads(arguments.work[1]))
    length = max(arguments.prompts) + arguments.tokens + MARGIN_TOKENS
    options = {
        "transformers": {"cache_tokens": str(arguments.most_tokens + 4 * MARGIN_TOKENS)},
        "vllm": {"max_model_len": str(length), "enforce_eager": "true", "max_num_seqs": "64"},
        "generate": {},
    }
    source = random.Random(0)
    print(" prompt streams engine          first s   tokens/s    cpu s 2nd turn peak MiB")
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(
                opened(
                    name,
                    arguments.vllm_python if name == "vllm" else sys.executable,
                    options[name],
                )
            )
            for name in arguments.engines
        }
        for size in arguments.prompts:
            for streams in arguments.streams:
                if streams * (size + arguments.tokens) <= arguments.most_tokens:
                    compare(engines, size, streams, arguments.tokens, arguments.rounds, source)


def compare(
    engines: dict[str, Any],
    size: int,
    streams: int,
    tokens: int,
    rounds: int,
    source: random.Random,
) -> None:
    """Print a row for each engine, and the ratios of ours to vLLM's."""
    names = [
        name
        for name in engines
        if name != "generate" or streams * HEADS * size * size * 2 <= MOST_SCORES
    ]
    results: dict[str, list[Result]] = {name: [] for name in names}
    for _ in range(rounds):
        prompts = [[source.randrange(190_000) for _ in range(size)] for _ in range(streams)]
        for name in source.sample(names, len(names)):
            results[name].append(engines[name](prompts, tokens))
    for name in names:
        print(f"{size:7} {streams:7} {name:14} {row(results[name])}", flush=True)
    if "vllm" in names and "transformers" in names:
        pairs = list(zip(results["transformers"], results["vllm"], strict=True))
        first = statistics.median(theirs.first / ours.first for ours, theirs in pairs)
        rest = statistics.median(ours.rest / theirs.rest for ours, theirs in pairs)
        print(f"{size:7} {streams:7} times vLLM     {first:8.2f} {rest:9.2f}", flush=True)


if __name__ == "__main__":
    main()
