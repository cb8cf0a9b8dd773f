"""Checks of GPUs: the driver, torch, memory, and the packages that compute with packed weights."""

from importlib.metadata import PackageNotFoundError, version

from adapters.requirements import KERNELS_VERSION, MXFP4_CAPABILITY, oldest_driver
from adapters.torch_build import Device, Torch
from server.commands.doctor.check import DEQUANTISED, Check, Plan, Status, run, size

_OF_VLLM = (8, 0)
_WORKSPACE = 2_000_000_000
"""Bytes beside the weights that a first short request takes."""
_VLLM = "0.32."


def check_driver(answer: tuple[int | None, str], torch: Torch, plan: Plan) -> Check:
    """answer: `run` of nvidia-smi, one line of name, driver and memory for each GPU."""
    status, text = answer
    missing = plan.without_gpu
    if status is None and missing == "ok":
        return Check("driver", missing, "no NVIDIA driver was found, and none is needed")
    if status is None:
        advice = f"install NVIDIA's driver, or start a container with --gpus all{_or_cpu(plan)}"
        return Check("driver", missing, "nvidia-smi is not there or does not answer", advice)
    first = (text.splitlines() or ["no GPU"])[0]
    if status != 0:
        advice = "restart the machine, or ask who runs it: the driver reports that a GPU is gone"
        return Check("driver", missing, first, advice)
    found = [part.strip() for part in first.split(",")]
    driver = found[1] if len(found) > 1 else ""
    oldest = oldest_driver(torch.cuda) if torch.cuda else None
    if oldest and driver.partition(".")[0].isdecimal() and int(driver.partition(".")[0]) < oldest:
        fact = f"{driver}, but torch {torch.version} (CUDA {torch.cuda}) needs {oldest} or later"
        advice = "update the driver, or install a torch for an older CUDA"
        return Check("driver", missing, fact, advice)
    return Check("driver", "ok", f"{driver} for {len(text.splitlines())} GPU(s), {found[0]} first")


def ask_driver() -> tuple[int | None, str]:
    """What `check_driver` takes."""
    fields = "--query-gpu=name,driver_version,memory.total,memory.used"
    return run("nvidia-smi", fields, "--format=csv,noheader")


def check_torch(torch: Torch, plan: Plan) -> Check:
    """Whether torch can be imported, and computes on a GPU if the plan needs one."""
    if not torch.version:
        status: Status = "failed" if plan.engine_here else "warning"
        return Check("torch", status, str(torch.error), "install the project again: make install")
    missing: Status = "failed" if plan.needs_gpu else "ok"
    if torch.cuda is None:
        fact = f"{torch.version}, a build without CUDA"
        if missing == "ok":
            return Check("torch", "ok", fact)
        advice = f"install torch from the default index of PyPI{_or_cpu(plan)}"
        return Check("torch", missing, fact, advice)
    fact = f"{torch.version} for CUDA {torch.cuda}"
    if torch.error:
        advice = f"see the driver above, CUDA_VISIBLE_DEVICES and --gpus{_or_cpu(plan)}"
        return Check("torch", plan.without_gpu, f"{fact}: {torch.error}", advice)
    return Check("torch", "ok", f"{fact}, {len(torch.devices)} GPU(s)")


def _or_cpu(plan: Plan) -> str:
    if plan.backend != "transformers":
        return ""
    return "; to serve on the CPU, set --backend-option device=cpu"


def check_gpu(device: Device, count: int, plan: Plan, *, packed: bool) -> Check:
    """Whether a GPU is new enough, large enough, free and alive.

    count: GPUs that share the weights. packed: whether the weights stay packed.
    """
    name = f"GPU {device.index}"
    bad: Status = "failed" if plan.needs_gpu else "warning"
    if device.error:
        advice = "reset the GPU or restart the machine; leave it out with CUDA_VISIBLE_DEVICES"
        return Check(name, bad, f"it does not compute: {device.error}", advice)
    capability = ".".join(map(str, device.capability))
    fact = (
        f"{device.name}, compute capability {capability}, "
        f"{size(device.free)} of {size(device.total)} free"
    )
    least = _OF_VLLM if plan.backend == "vllm" else MXFP4_CAPABILITY
    if device.capability < least:
        needed = ".".join(map(str, least))
        advice = f"{plan.backend} computes with packed weights from compute capability {needed} on"
        if plan.weights != 0:
            return Check(name, bad, fact, f"{advice}: use a newer GPU")
    if not plan.weights:
        return Check(name, "ok", fact)
    needs = plan.weights * (1 if packed else DEQUANTISED) / count + _WORKSPACE
    if device.total < needs:
        where = f"on each of {count} GPUs" if count > 1 else "on one GPU"
        advice = f"the model needs {size(needs)} {where}: use a larger one, or more of them (vllm)"
        if not packed:
            advice += ", or keep the weights packed (pip install '.[gpu]')"
        return Check(name, bad, fact, advice)
    if device.free < needs:
        advice = f"the model needs {size(needs)}: end what uses this GPU (nvidia-smi names it)"
        return Check(name, bad, fact, advice)
    return Check(name, "ok", fact)


def check_packages(installed: dict[str, str | None], plan: Plan) -> list[Check]:
    """installed: versions by name, None for a package that is not there."""
    checks = []
    if plan.backend == "vllm":
        found = installed["vllm"]
        good = found is not None and found.startswith(_VLLM)
        advice = "" if good else "pip install '.[vllm]' in an environment of its own"
        checks.append(Check("vllm", "ok" if good else "failed", found or "not installed", advice))
    elif plan.backend == "transformers":
        fine = not plan.wants_gpu or plan.weights == 0
        for name, good in (
            ("triton", installed["triton"] is not None),
            ("kernels", (installed["kernels"] or "").startswith(KERNELS_VERSION)),
        ):
            advice = (
                ""
                if good or fine
                else "pip install '.[gpu]': without it the weights take three times the memory"
            )
            status: Status = "ok" if good or fine else "warning"
            checks.append(Check(name, status, installed[name] or "not installed", advice))
    return checks


def keeps_packed(installed: dict[str, str | None]) -> bool:
    """Whether transformers has what it computes with packed weights with."""
    kernels = installed["kernels"] or ""
    return installed["triton"] is not None and kernels.startswith(KERNELS_VERSION)


def installed_packages() -> dict[str, str | None]:
    """What `check_packages` takes."""
    return {name: _version(name) for name in ("vllm", "triton", "kernels")}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
