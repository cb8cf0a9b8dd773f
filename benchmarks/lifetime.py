"""Measure one default server from its start: times, memory, and answers on a busy machine.

    python -m benchmarks.lifetime [--rounds 3] [--tokens 60] [--json FILE]

The server has its default options, and so the demo checkpoint, which is written before; only its
store is in memory. The requests exclude the tokens that end an answer, so that all answers are of
one length. Each round starts the server anew. The output has the medians of:

- the seconds from the start of the process to the first successful GET /ready, the processor
  seconds until then, and their ratio to those of `import torch`, which other load changes less;
- the seconds of the first request after it, and of later ones (their median), 60 tokens each;
- the resident memory of the server's processes after the start, right after 16 requests at once,
  and after two more seconds, in which an idle server returns what it freed; a page that n processes
  share counts 1/n for each (PSS);
- the ratio of the seconds of a request while other processes use all cores, to those without them.
"""

import argparse
import asyncio
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.library import figures
from benchmarks.library.clients import post, usage
from benchmarks.library.processes import LOGS, free_port, process_seconds, running
from demo import checkpoint
from harmony.vocab import STOP_TOKENS

PATH = "/v1/completions"
LATER = 5
TOGETHER = 16
IDLE_SECONDS = 2
PROMPT = [976, 4298, 382] * 10
MEGABYTE = 1e6


def request(port: int, tokens: int) -> float:
    """Seconds of one answer of `tokens` tokens."""
    return max(requests(port, tokens, 1))


def requests(port: int, tokens: int, count: int) -> list[float]:
    """Seconds of each of `count` answers at once. Exits if one of them ended early."""
    body: dict[str, Any] = {"model": "model", "prompt": PROMPT, "max_tokens": tokens}
    body |= {"logit_bias": {str(token): -100 for token in STOP_TOKENS}}
    body |= {"stream": True, "stream_options": {"include_usage": True}}

    async def send() -> list[float]:
        answers = await asyncio.gather(*(post(port, PATH, body) for _ in range(count)))
        fewest = min(usage(answer).output_tokens for answer in answers)
        if fewest < tokens:
            raise SystemExit(f"an answer ended after {fewest} of {tokens} tokens")
        return [answer.seconds for answer in answers]

    return asyncio.run(send())


def spin() -> None:
    while True:
        pass


@contextmanager
def busy() -> Iterator[None]:
    """Other processes use all cores while the block runs."""
    cores = os.cpu_count() or 1
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(cores)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def imports_of_torch() -> float:
    """The processor seconds of a program that imports torch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(tokens: int) -> figures.Figures:
    """One life of a server."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "server", "serve", "--served-model-name", "model"),
        *("--port", str(port), "--store", "memory"),
    ]
    torch = imports_of_torch()
    began = time.perf_counter()
    with running(command, f"http://127.0.0.1:{port}/ready", LOGS / "lifetime.log") as process:
        found = {"start, s": time.perf_counter() - began}
        found["start, processor s"] = process_seconds(process.pid)
        found["start / import torch, processor"] = found["start, processor s"] / torch
        idle = process.proportional_memory
        found["first request, s"] = request(port, tokens)
        later = [request(port, tokens) for _ in range(LATER)]
        found["later requests, s"] = statistics.median(later)
        found["first / later requests"] = found["first request, s"] / statistics.median(later)
        requests(port, tokens, TOGETHER)
        found["memory after the start, MB"] = idle / MEGABYTE
        found["memory in use, MB"] = process.proportional_memory / MEGABYTE
        time.sleep(IDLE_SECONDS)
        found["memory after use, MB"] = process.proportional_memory / MEGABYTE
        with busy():
            beside = [request(port, tokens) for _ in range(LATER)]
        found["busy / idle machine"] = statistics.median(beside) / statistics.median(later)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    figures.add_option(parser)
    options = parser.parse_args()
    checkpoint.ensure()
    results = [measure(options.tokens) for _ in range(options.rounds)]
    found = {name: statistics.median(one[name] for one in results) for name in results[0]}
    for name, value in found.items():
        print(f"{name:32} {value:9.2f}")
    figures.write(found, options.json)


if __name__ == "__main__":
    main()
