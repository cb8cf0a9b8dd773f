"""The result of one check of `doctor`, and what the checks share."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from adapters.requirements import LARGE_ON_CPU
from server.settings import Settings

Status = Literal["ok", "warning", "failed"]

_NO_GPU = ("cpu", "mps")
WEIGHTS = {"gpt-oss-20b": 13_800_000_000, "gpt-oss-120b": 65_300_000_000}
"""Bytes of the checkpoints' weights with packed experts."""
DEQUANTISED = 3.05
"""How much larger weights are in bfloat16 than packed: 13.8 GB of the 20b become 42."""


@dataclass(frozen=True, slots=True)
class Check:
    """name: what was checked. fact: what was found. advice: what to do if that is not enough.

    status: `failed` where serving would fail, `warning` where it would lack something.
    """

    name: str
    status: Status
    fact: str
    advice: str = ""

    @property
    def to_do(self) -> str:
        """The advice; empty where all is well."""
        return "" if self.status == "ok" else self.advice


@dataclass(frozen=True, slots=True)
class Plan:
    """What `serve` would run with these settings.

    backend: its name. engine_here: whether a model runs on this machine. wants_gpu: whether it
    takes a GPU if there is one. needs_gpu: whether it cannot run, or not in a useful time, without
    one. weights: their size in bytes; None where it is not known.
    """

    backend: str
    engine_here: bool
    wants_gpu: bool
    needs_gpu: bool
    weights: int | None

    @property
    def without_gpu(self) -> Status:
        """The status of a check that finds no GPU, or lacks what a GPU needs."""
        if self.needs_gpu:
            return "failed"
        return "warning" if self.wants_gpu else "ok"


def plan(settings: Settings, vllm: str | None = None) -> Plan:
    """What the settings would run. vllm: its installed version; a CPU build's ends in +cpu."""
    here = settings.backend in ("transformers", "vllm")
    device = settings.backend_options.get("device", "auto")
    on_cpu = (vllm or "").endswith("+cpu") if settings.backend == "vllm" else device in _NO_GPU
    wants_gpu = here and not on_cpu
    weights = _weights(settings)
    large = weights is not None and weights > LARGE_ON_CPU
    is_named = settings.backend == "vllm" or device.startswith("cuda")
    return Plan(settings.backend, here, wants_gpu, wants_gpu and (is_named or large), weights)


def _weights(settings: Settings) -> int | None:
    if settings.is_demo:
        return 0
    model = settings.model or ""
    if os.path.isdir(model):  # `Path.is_dir` may raise, as for a long name
        files = Path(model).glob("*.safetensors")
        return sum(file.stat().st_size for file in files if file.exists())
    return WEIGHTS.get(model.rpartition("/")[2].lower())


def size(count: float) -> str:
    """Bytes as people write them."""
    return f"{count / 1e9:.1f} GB"


def run(*command: str, seconds: float = 10) -> tuple[int | None, str]:
    """A program's exit status and its output; None where it is missing or does not end in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return done.returncode, (done.stdout or done.stderr).strip()
