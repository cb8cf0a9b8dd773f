"""The checks that need other programs: vLLM in an environment of its own, and Docker."""

import asyncio
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from benchmarks.gpu_check.results import NO_MODEL, Check, Measured, Skipped
from benchmarks.library.engines import VLLM_PYTHON
from benchmarks.library.figures import ROOT

_INSTALL = "python3.11 -m venv .venv-vllm && .venv-vllm/bin/pip install '.[vllm]'"
_STARTS = 1800.0
_KEY = "check"
"""The API key of the container."""
RATIO = 0.9


def server_checks(model: str | None, image: str | None) -> list[Check]:
    """model: a name or folder; image: the container image with vLLM. Each may be missing."""
    return [
        Check(
            "--backend vllm against vllm serve",
            f"at least {RATIO:g} of its tokens/s",
            lambda: against_vllm(model),
        ),
        Check("second container start", "under a minute", lambda: second_start(model, image)),
    ]


async def against_vllm(model: str | None) -> Measured:
    """Both in front of one engine, by `benchmarks.vllm`."""
    if not VLLM_PYTHON.exists():
        raise Skipped(f"there is no {VLLM_PYTHON}: {_INSTALL}")
    if (build := _vllm_version()).endswith("cpu"):
        raise Skipped(f"{VLLM_PYTHON} has vLLM's build for CPUs ({build}): {_INSTALL}")
    if model is None:
        raise Skipped(NO_MODEL)
    command = [str(VLLM_PYTHON), "-m", "benchmarks.vllm", "--model", model, "--launches", "1"]
    on_gpu = {**os.environ, "VLLM_TARGET_DEVICE": "cuda"}
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, env=on_gpu, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return read_ratios(done.stdout)


def _vllm_version() -> str:
    code = "import importlib.metadata as found; print(found.version('vllm'))"
    done = subprocess.run([str(VLLM_PYTHON), "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"there is no vLLM in {VLLM_PYTHON}: {_INSTALL}")
    return done.stdout.strip()


def read_ratios(printed: str) -> Measured:
    """The ratios of tokens per second in the table of `benchmarks.vllm`, ours to vLLM's."""
    row = re.compile(r"^(\S+) +(yes|no) +(\d+) +\d+ +\d+ +([\d.]+) \(", re.MULTILINE)
    # The table is printed after each launch; the last one holds them all.
    found = {
        f"{api}{' masked' if masked == 'yes' else ''} {streams}": float(ratio)
        for api, masked, streams, ratio in row.findall(printed)
    }
    if not found:
        raise RuntimeError("benchmarks.vllm printed no ratio")
    return found, min(found.values()) >= RATIO


async def second_start(model: str | None, image: str | None) -> Measured:
    """Start a container twice on one cache, from its start to /health."""
    if image is None or shutil.which("docker") is None:
        raise Skipped("no image was named, or no docker is here: IMAGE=gpt-oss-server:vllm")
    first = await asyncio.to_thread(_start, image, model)
    second = await asyncio.to_thread(_start, image, model)
    return {"first s": first, "second s": second}, second < 60


def _start(image: str, model: str | None) -> float:
    settings = [f"GPT_OSS_API_KEY={_KEY}", "GPT_OSS_BACKEND=vllm"]
    settings += [f"GPT_OSS_MODEL={model}"] if model else []
    arguments = ["run", "--detach", "--rm", "--gpus", "all", "--ipc", "host"]
    arguments += ["--volume", "gpt-oss-check:/cache", "--publish", "127.0.0.1::8000"]
    arguments += [word for setting in settings for word in ("--env", setting)]
    began = time.monotonic()
    container = _docker(*arguments, image).strip()
    try:
        port = _docker("port", container, "8000/tcp").strip().rpartition(":")[2]
        while time.monotonic() - began < _STARTS:
            if _is_healthy(f"http://127.0.0.1:{port}/health"):
                return time.monotonic() - began
            _docker("inspect", container)  # raises where it has ended
            time.sleep(0.5)
        raise RuntimeError(f"the container was not healthy after {_STARTS:.0f} s")
    finally:
        subprocess.run(["docker", "stop", container], capture_output=True)


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["docker failed"])[-1])
    return done.stdout


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
