"""All checks, in the order in which they are read."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from adapters.download import MAKE_ROOM, why_no_room
from adapters.errors import BackendFailed, UnknownBackend
from adapters.registry import REMOTE, names
from adapters.scripted import read_script
from adapters.torch_build import Device, Torch, find_devices
from demo.checkpoint import default_cache_dir, is_whole, trained_name
from harmony.tokenizer import encode_with_control
from server.commands.backends import open_engines
from server.commands.doctor.check import Check, Plan, plan
from server.commands.doctor.gpu import (
    ask_driver,
    check_driver,
    check_gpu,
    check_packages,
    check_torch,
    installed_packages,
    keeps_packed,
)
from server.commands.doctor.machine import (
    available_memory,
    check_compiler,
    check_disk,
    check_headers,
    check_memory,
    check_system,
)
from server.commands.doctor.network import (
    check_engines,
    check_hub,
    check_kernels,
    check_port,
    check_store,
    hub_cache,
    is_cached,
    is_on_hub,
)
from server.commands.doctor.sandbox import check_sandbox
from server.commands.option_help import unknown_variables
from server.commands.stores import default_file
from server.settings import Settings

_GPUS = ("tensor_parallel_size", "tensor-parallel-size")


def examine(settings: Settings, find: Callable[[], Torch] = find_devices) -> Iterator[Check]:
    """The checks, in the order in which they are read. find: asks torch for its devices."""
    serving = plan(settings, installed_packages()["vllm"])
    yield check_system()
    yield _variables_check()
    yield _backend_check(settings)
    torch = find()
    if torch.cuda is None and not serving.needs_gpu:  # torch's build for CPUs
        serving = replace(serving, wants_gpu=False)
    yield from _gpu_checks(settings, serving, torch)
    yield check_compiler(serving)
    yield check_headers(serving)
    on_gpu = serving.wants_gpu and any(device.error is None for device in torch.devices)
    yield check_memory(serving, available_memory(), on_gpu=on_gpu)
    yield from _cache_checks(settings, serving)
    yield check_hub(settings)
    yield from check_engines(settings)
    yield check_port(settings)
    yield check_store(settings, default_file())
    yield from _folder_checks(settings)
    yield from check_sandbox()


def _variables_check() -> Check:
    """Whether each variable with the prefix of options is one."""
    unknown = unknown_variables(os.environ)
    if unknown:
        fact = f"not options, and ignored: {', '.join(unknown)}"
        return Check("variables", "warning", fact, "correct their names, or unset them")
    return Check("variables", "ok", "all that begin with GPT_OSS_ are options")


def _backend_check(settings: Settings) -> Check:
    """Whether there is a backend of this name, with the URL or the script that it needs."""
    name, known = settings.backend, names()
    if name not in known:
        fact = str(UnknownBackend(name, known))
        return Check("backend", "failed", fact, "correct --backend, or install its plug-in")
    try:
        if name in REMOTE:
            open_engines(settings)
    except BackendFailed as error:
        advice = "correct --backend-url or --backend-option"
        return Check("backend", "failed", str(error), advice)
    return Check("backend", "ok", name) if settings.script is None else _script_check(settings)


def _script_check(settings: Settings) -> Check:
    path = Path(settings.script or "")
    try:
        count = sum(1 for _ in read_script(path, encode_with_control))
    except BackendFailed as error:
        return Check("backend", "failed", str(error), "correct the file, or --script")
    return Check("backend", "ok", f"{settings.backend}: {count} completions in {path}")


def _gpu_checks(settings: Settings, serving: Plan, torch: Torch) -> Iterator[Check]:
    driver = ask_driver()
    if driver[0] is not None and torch.cuda and torch.error:
        # The backend refuses to compute on a CPU beside a GPU, unless it is asked to.
        serving = replace(serving, needs_gpu=serving.wants_gpu)
    yield check_driver(driver, torch, serving)
    yield check_torch(torch, serving)
    shared = next((settings.backend_options.get(name) for name in _GPUS), None) or "1"
    count = int(shared) if shared.isdecimal() and int(shared) else 1
    used = torch.devices if settings.backend == "vllm" else _chosen(settings, torch)
    if serving.wants_gpu and settings.backend == "vllm" and 0 < len(used) < count:
        fact = f"{len(used)}, but tensor_parallel_size is {count}"
        yield Check("GPUs", "failed", fact, f"set it to {len(used)}, or add GPUs")
    packages = installed_packages()
    packed = settings.backend == "vllm" or keeps_packed(packages)
    for device in used:
        yield check_gpu(device, count, serving, packed=packed)
    yield from check_packages(packages, serving)
    on_gpu = settings.backend == "transformers" and serving.wants_gpu and torch.devices
    if on_gpu and packed and serving.weights != 0:
        yield check_kernels()


def _chosen(settings: Settings, torch: Torch) -> Sequence[Device]:
    """The GPU that the transformers backend would use, as a list."""
    index = settings.backend_options.get("device", "").removeprefix("cuda:")
    number = int(index) if index.isdecimal() else 0
    return [device for device in torch.devices if device.index == number]


def _cache_checks(settings: Settings, serving: Plan) -> Iterator[Check]:
    """The folder that a start would write a checkpoint to; none where it would write none."""
    if settings.is_demo:
        yield _demo_check()
    elif is_on_hub(settings) and not is_cached(settings.model or ""):
        yield _download_check(hub_cache(), serving.weights or 0)


def _folder_checks(settings: Settings) -> Iterator[Check]:
    """The folders of uploaded files and of Python sessions. Without the latter, `serve` runs."""
    if settings.files is not None:
        yield check_disk("files", Path(settings.files), "name another folder with --files")
    if settings.python_folder is not None:
        advice = "the tool python is off; name another folder with --python-folder"
        found = check_disk("Python folder", settings.python_folder, advice)
        yield replace(found, status="warning") if found.status == "failed" else found


def _download_check(cache: Path, size: int) -> Check:
    if reason := why_no_room(size, cache):
        return Check("disk", "failed", f"the model {reason}", MAKE_ROOM)
    return check_disk("disk", cache, "set HF_HOME to a folder on another disk")


def _demo_check() -> Check:
    folder = default_cache_dir() / trained_name()
    if is_whole(folder):
        return Check("disk", "ok", f"{folder} is there")
    return check_disk("disk", folder, "set XDG_CACHE_HOME to a folder that can be written")
