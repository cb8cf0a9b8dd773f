"""Engines behind `POST /v1/completions` with token ids: this server, vLLM's, llama.cpp's, and
transformers' `generate`."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from adapters.vllm.flags import flags
from benchmarks.library.clients import TEXT, Answer, post
from benchmarks.library.figures import ROOT
from benchmarks.library.processes import LOGS, Process, free_port, running

NAME = "model"
PATH = "/v1/completions"
OURS, VLLM, LLAMA_CPP, GENERATE = "ours", "vLLM", "llama.cpp", "generate"
OURS_ON_VLLM = "ours on vLLM"
"""This server with `--backend vllm`."""
NAMES = (OURS, VLLM, LLAMA_CPP, GENERATE, OURS_ON_VLLM)
PEERS = (OURS, VLLM, LLAMA_CPP)
"""Engines that do not share one: they may run at the same time."""
VLLM_PYTHON = Path(os.environ.get("VLLM_PYTHON", ROOT / ".venv-vllm/bin/python"))
LLAMA_CPP_FOLDER = Path(os.environ.get("LLAMA_CPP", ROOT / ".llama-cpp"))
WORDS = 190_000
"""Prompts are drawn from the ids below: control tokens and unused ids are above."""

CPU_ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "4",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def installed(names: Sequence[str] = NAMES) -> list[str]:
    """Those of the names whose engines can be started here."""
    vllm, llama = VLLM_PYTHON.exists(), _llama_server().exists()
    present = dict.fromkeys(NAMES, True) | {VLLM: vllm, LLAMA_CPP: llama, OURS_ON_VLLM: vllm}
    return [name for name in names if present[name]]


def _llama_server() -> Path:
    return LLAMA_CPP_FOLDER / "bin/llama-server"


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
        """Sample `tokens` tokens at temperature 1, fewer if a token ends the answer."""
        body = {
            "model": NAME,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 1.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra,
        }
        return await post(self.port, PATH, body, TEXT)


def prompt(source: random.Random, length: int) -> list[int]:
    return [source.randrange(WORDS) for _ in range(length)]


@contextmanager
def started(names: Sequence[str], setup: Setup) -> Iterator[list[Engine]]:
    """The engines of these names, ready for requests. Raises Missing, NotStarted."""
    starts = {
        OURS: ours,
        VLLM: vllm,
        LLAMA_CPP: llama_cpp,
        GENERATE: generate,
        OURS_ON_VLLM: ours_on_vllm,
    }
    with ExitStack() as stack:
        yield [stack.enter_context(starts[name](setup)) for name in names]


def ours(setup: Setup) -> AbstractContextManager[Engine]:
    options = [f"device={setup.device}", *setup.options]
    arguments = [word for option in options for word in ("--backend-option", option)]
    return _serving(OURS, sys.executable, setup, arguments, {})


def ours_on_vllm(setup: Setup) -> AbstractContextManager[Engine]:
    engine = [f"--engine-arg={name}={value}" for name, value in _vllm_arguments(setup).items()]
    arguments = ["--backend", "vllm", *engine]
    return _serving(OURS_ON_VLLM, _vllm_python(), setup, arguments, _vllm_environment(setup))


@contextmanager
def _serving(
    name: str,
    python: str,
    setup: Setup,
    arguments: Sequence[str],
    environment: dict[str, str],
) -> Iterator[Engine]:
    """This server, with further arguments."""
    port = free_port()
    command = [
        *(python, "-m", "server", "serve", "--model", str(setup.model)),
        *("--served-model-name", NAME, "--port", str(port), "--store", "memory"),
        *("--log-level", "warning", *arguments),
    ]
    url = f"http://127.0.0.1:{port}/ready"
    log = LOGS / f"{name.replace(' ', '-')}.log"
    with running(command, url, log, {"HF_HUB_OFFLINE": "1", **environment}) as process:
        yield Engine(name, port, process)


@contextmanager
def vllm(setup: Setup) -> Iterator[Engine]:
    port = free_port()
    arguments = {
        **_vllm_arguments(setup),
        "served_model_name": NAME,
        "port": str(port),
        "disable_log_stats": "true",
        "disable_uvicorn_access_log": "true",
    }
    command = [
        *(_vllm_python(), "-m", "vllm.entrypoints.cli.main", "serve", str(setup.model)),
        *flags(arguments),
    ]
    url = f"http://127.0.0.1:{port}/health"
    with running(command, url, LOGS / "vllm.log", _vllm_environment(setup)) as process:
        yield Engine(VLLM, port, process, {"ignore_eos": True})


def _vllm_python() -> str:
    if not VLLM_PYTHON.exists():
        raise Missing(f"there is no {VLLM_PYTHON}: `make test-vllm` makes it for a CPU")
    return str(VLLM_PYTHON)


def _vllm_arguments(setup: Setup) -> dict[str, str]:
    arguments = {"max_model_len": str(setup.context), "max_num_seqs": str(setup.streams)}
    # On a CPU vLLM 0.32 gains nothing from compiling a model of the demo checkpoint's size.
    return {**arguments, "enforce_eager": "true"} if setup.device == "cpu" else arguments


def _vllm_environment(setup: Setup) -> dict[str, str]:
    return {**CPU_ENVIRONMENT, **os.environ} if setup.device == "cpu" else {}


@contextmanager
def llama_cpp(setup: Setup) -> Iterator[Engine]:
    program = _llama_server()
    if not program.exists():
        raise Missing(f"there is no {program}: `make test-llama-cpp` builds it")
    port = free_port()
    command = [
        *(str(program), "--model", str(gguf(setup.model)), "--alias", NAME),
        *("--host", "127.0.0.1", "--port", str(port), "--parallel", str(setup.streams)),
        *("--ctx-size", str(setup.streams * setup.context), "--threads", str(os.cpu_count())),
        *("--cache-ram", "0", "--log-verbosity", "1"),
    ]
    url = f"http://127.0.0.1:{port}/health"
    with running(command, url, LOGS / "llama-cpp.log") as process:
        # Without the samplers that it has by default, and the others have not.
        samplers = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": True}
        yield Engine(LLAMA_CPP, port, process, {"ignore_eos": True, **samplers})


@contextmanager
def generate(setup: Setup) -> Iterator[Engine]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "benchmarks.library.generate", str(setup.model)),
        *("--port", str(port)),
    ]
    url = f"http://127.0.0.1:{port}/health"
    with running(command, url, LOGS / "generate.log", {"HF_HUB_OFFLINE": "1"}) as process:
        yield Engine(GENERATE, port, process)


def gguf(model: Path) -> Path:
    """The checkpoint in llama.cpp's format, made once beside the program."""
    file = LLAMA_CPP_FOLDER / f"{model.name}.gguf"
    if not file.exists():
        converter = LLAMA_CPP_FOLDER / "source/convert_hf_to_gguf.py"
        draft = file.with_suffix(".part")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, str(converter), "--outfile", str(draft), untied(model, folder)],
                env={**os.environ, "PYTHONPATH": str(LLAMA_CPP_FOLDER / "source/gguf-py")},
                check=True,
                capture_output=True,
            )
        shutil.move(draft, file)
    return file


def untied(model: Path, folder: str) -> str:
    """The checkpoint with an output layer of its own, as llama.cpp needs it. It has one file."""
    config = json.loads((model / "config.json").read_text())
    if not config["tie_word_embeddings"]:
        return str(model)
    shutil.copytree(model, folder, dirs_exist_ok=True)
    config["tie_word_embeddings"] = False
    Path(folder, "config.json").write_text(json.dumps(config))
    weights = load_file(model / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    save_file(weights, Path(folder, "model.safetensors"), metadata={"format": "pt"})
    return folder
