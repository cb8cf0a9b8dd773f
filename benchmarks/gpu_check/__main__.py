"""What the server does on a GPU, on one page: `MODEL=openai/gpt-oss-20b make test-gpu`.

    python -m benchmarks.gpu_check [--device cuda|cpu] [--model NAME] [--image NAME] [--out FOLDER]
                                    [--only TEXT ...]

Ten minutes on one GPU. Without --model, only a checkpoint of the demo checkpoint's shape is
checked; what needs more is skipped, and the page says why. Its weights are random, as they were
when the tolerances were set; no answer ends early with either. --device cpu runs the same checks
with less work, to see that they run. --only runs the checks whose names contain one of the texts,
in the order of the texts. The exit status is 1 where a check failed. The page and a JSON file of
the same are written to --out; send both with a report.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from adapters.torch_build import find_devices
from benchmarks.gpu_check.checks import attention_names, demo_checks
from benchmarks.gpu_check.engine import ON_CPU, ON_CUDA, Target
from benchmarks.gpu_check.model_checks import model_checks
from benchmarks.gpu_check.results import (
    NO_MODEL,
    Check,
    Measured,
    Result,
    Skipped,
    judge,
    page,
    short,
)
from benchmarks.gpu_check.servers import server_checks
from demo import checkpoint
from server.commands.doctor.examine import examine
from server.settings import Settings

PACKED = "gpt-oss-20b"
SMALL = "random weights of the demo checkpoint's shape"
PACKAGES = ("gpt-oss-server", "transformers", "triton", "kernels")


def plan(device: str, demo: str, model: str | None, image: str | None) -> list[Check]:
    """All checks, in their order. demo: the folder of a checkpoint of the demo's shape."""
    sizes = ON_CUDA if device.startswith("cuda") else ON_CPU
    checks = demo_checks(Target(device, demo), attention_names(device), sizes)
    if model is not None:
        packed = model.rstrip("/").endswith(PACKED)
        checks += model_checks(Target(device, model), sizes, packed=packed)
    elif device.startswith("cuda"):
        checks += [Check(one.name, one.bound, _no_model) for one in _named(device)]
    else:
        # The small one stands in for it: a run on a CPU is there to see that the checks run.
        checks += model_checks(Target(device, demo), sizes, packed=False)
    return checks + server_checks(model, image)


def selected(checks: list[Check], texts: list[str]) -> list[Check]:
    """The checks whose names contain one of the texts, in the order of the texts; all of them if
    there are no texts."""
    if not texts:
        return checks
    found = [check for text in texts for check in checks if text in check.name]
    return list({check.name: check for check in found}.values())


def _named(device: str) -> list[Check]:
    return model_checks(Target(device, ""), ON_CUDA, packed=True)


async def _no_model() -> Measured:
    raise Skipped(NO_MODEL)


async def run(
    checks: list[Check],
    shown: Callable[[str], None],
    clock: Callable[[], float],
    save: Callable[[list[Result]], None],
) -> list[Result]:
    """Run the checks one after another. shown: gets a line for each. save: gets all so far."""
    results: list[Result] = []
    for check in checks:
        result = await judge(check, clock)
        figures = [f"{name} {short(value)}" for name, value in result.figures.items()]
        detail = ", ".join([*figures, *([result.reason] if result.reason else [])])
        shown(f"{result.status:8} {check.name}: {detail}")
        results.append(result)
        save(results)
    return results


def machine(device: str, model: str | None) -> dict[str, Any]:
    """The machine and the versions, for the page."""
    found = find_devices()
    gpus = ", ".join(f"{one.name} {one.total / 1e9:.0f} GB" for one in found.devices)
    settings = Settings(model=model, port=0, backend_option=(f"device={device}",))
    doctor = list(examine(settings))
    bad = [f"{one.name}: {one.fact}" for one in doctor if one.status != "ok"]
    facts = {one.name: one.fact for one in doctor}
    versions = {name: _version(name) for name in PACKAGES}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": device,
        "GPUs": gpus or "none",
        "driver": facts["driver"],
        "system": facts["system"],
        "torch": f"{found.version}, CUDA {found.cuda}",
        "packages": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "model": model or SMALL,
        "doctor": "; ".join(bad) or "all checks are ok",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", help="a gpt-oss's name or folder")
    parser.add_argument("--image", help="a container image of the server with vLLM")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="in checks' names")
    parser.add_argument("--out", type=Path, default=Path("build/gpu-check"))
    options = parser.parse_args(argv)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print(
            f"no CUDA device is usable: {find_devices().error or 'torch has no CUDA'}; see "
            "`gpt-oss-server doctor`, or check the checks with --device cpu",
            file=sys.stderr,
        )
        return 1
    about = machine(options.device, options.model)
    planned = plan(options.device, str(checkpoint.ensure_random()), options.model, options.image)
    checks = selected(planned, options.only)
    if not checks:
        parser.error(f"no check's name contains {' or '.join(options.only)}")
    if options.only:
        about["only"] = ", ".join(options.only)
    options.out.mkdir(parents=True, exist_ok=True)

    def save(results: list[Result]) -> None:
        """A check that ends the process leaves the results of those before it."""
        content = {"machine": about, "results": [asdict(one) for one in results]}
        (options.out / "results.md").write_text(page(about, results), encoding="utf-8")
        (options.out / "results.json").write_text(json.dumps(content, indent=1), encoding="utf-8")

    results = asyncio.run(run(checks, lambda line: print(line, flush=True), time.monotonic, save))
    print(f"written to {options.out}/results.md and results.json")
    return int(any(one.status == "failed" for one in results))


if __name__ == "__main__":
    sys.exit(main())
