"""Engines behind `POST /v1/completions` with token ids: this server, vLLM's, and llama.cpp's."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.vllm.flags import flags
from benchmarks.library.clients import Answer, post
from benchmarks.library.figures import ROOT
from benchmarks.library.processes import Process, free_port, running

NAME = "model"
PATH = "/v1/completions"
OURS, VLLM, LLAMA_CPP = "ours", "vLLM", "llama.cpp"
NAMES = (OURS, VLLM, LLAMA_CPP)
VLLM_PYTHON = ROOT / ".venv-vllm/bin/python"
LLAMA_CPP_FOLDER = ROOT / ".llama-cpp"
LOGS = ROOT / "build/bench"
WORDS = 190_000
"""Prompts are drawn from the ids below: control tokens and unused ids are above."""

CPU_ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "4",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class Missing(Exception):
    """An engine is not installed. The message says how to install it."""


@dataclass(frozen=True)
class Setup:
    """What the engines serve. model: a checkpoint's folder. streams: the most requests at once.

    context: the most tokens of one of them. device: `cpu` or `cuda`. options: for this server.
    """

    model: Path
    streams: int
    context: int
    device: str = "cpu"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Engine:
    """A running engine. extra: fields of its requests."""

    name: str
    port: int
    process: Process
    extra: dict[str, Any] = field(default_factory=dict)

    async def sample(self, prompt: Sequence[int], tokens: int) -> Answer:
        """Sample exactly `tokens` tokens at temperature 1."""
        body = {
            "model": NAME,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 1.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra,
        }
        return await post(self.port, PATH, body)


def prompt(source: random.Random, length: int) -> list[int]:
    return [source.randrange(WORDS) for _ in range(length)]


@contextmanager
def started(names: Sequence[str], setup: Setup) -> Iterator[list[Engine]]:
    """The engines of these names, ready for requests. Raises Missing, NotStarted."""
    starts = {OURS: ours, VLLM: vllm, LLAMA_CPP: llama_cpp}
    LOGS.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield [stack.enter_context(starts[name](setup)) for name in names]


@contextmanager
def ours(setup: Setup) -> Iterator[Engine]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "server", "serve", "--model", str(setup.model)),
        *("--served-model-name", NAME, "--port", str(port), "--store", "memory"),
        *("--backend-option", f"device={setup.device}", "--log-level", "warning"),
        *(word for option in setup.options for word in ("--backend-option", option)),
    ]
    url = f"http://127.0.0.1:{port}/ready"
    with running(command, url, LOGS / "ours.log", {"HF_HUB_OFFLINE": "1"}) as process:
        yield Engine(OURS, port, process)


@contextmanager
def vllm(setup: Setup) -> Iterator[Engine]:
    if not VLLM_PYTHON.exists():
        raise Missing(f"there is no {VLLM_PYTHON}: `make test-vllm` makes it for a CPU")
    port = free_port()
    arguments = {
        "max_model_len": str(setup.context),
        "max_num_seqs": str(setup.streams),
        "served_model_name": NAME,
        "port": str(port),
        "disable_log_stats": "true",
        "disable_uvicorn_access_log": "true",
    }
    environment = {}
    if setup.device == "cpu":
        # vLLM 0.32 compiles nothing useful for a model of this size.
        arguments |= {"enforce_eager": "true"}
        environment = {**CPU_ENVIRONMENT, **os.environ}
    command = [
        *(str(VLLM_PYTHON), "-m", "vllm.entrypoints.cli.main", "serve", str(setup.model)),
        *flags(arguments),
    ]
    url = f"http://127.0.0.1:{port}/health"
    with running(command, url, LOGS / "vllm.log", environment) as process:
        yield Engine(VLLM, port, process, {"ignore_eos": True})


@contextmanager
def llama_cpp(setup: Setup) -> Iterator[Engine]:
    program = LLAMA_CPP_FOLDER / "bin/llama-server"
    if not program.exists():
        raise Missing(f"there is no {program}: `make test-llama-cpp` builds it")
    port = free_port()
    command = [
        *(str(program), "--model", str(gguf(setup.model)), "--alias", NAME),
        *("--host", "127.0.0.1", "--port", str(port), "--parallel", str(setup.streams)),
        *("--ctx-size", str(setup.streams * setup.context), "--threads", str(os.cpu_count())),
        *("--cache-ram", "0", "--log-disable"),
    ]
    url = f"http://127.0.0.1:{port}/health"
    with running(command, url, LOGS / "llama-cpp.log") as process:
        # Without the samplers that it has by default, and the others have not.
        samplers = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": True}
        yield Engine(LLAMA_CPP, port, process, {"ignore_eos": True, **samplers})


def gguf(model: Path) -> Path:
    """The checkpoint in llama.cpp's format, made once beside the program."""
    file = LLAMA_CPP_FOLDER / f"{model.name}.gguf"
    if not file.exists():
        converter = LLAMA_CPP_FOLDER / "source/convert_hf_to_gguf.py"
        draft = file.with_suffix(".part")
        subprocess.run(
            [sys.executable, str(converter), "--outfile", str(draft), str(model)],
            env={**os.environ, "PYTHONPATH": str(LLAMA_CPP_FOLDER / "source/gguf-py")},
            check=True,
            capture_output=True,
        )
        shutil.move(draft, file)
    return file
