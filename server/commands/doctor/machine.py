"""Checks of the machine: the compiler, Python's headers, memory and disks."""

import os
import platform
import shutil
import sysconfig
from pathlib import Path
from tempfile import TemporaryFile

from adapters.container_memory import container_memory
from server.commands.doctor.check import DEQUANTISED, Check, Plan, Status, size

_BESIDE = 4_000_000_000
"""Bytes of memory that the server and its libraries take beside the weights."""
_LITTLE = 1_000_000_000


def check_system() -> Check:
    """Where this runs."""
    fact = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Check("system", "ok", f"{fact}, Python {platform.python_version()}")


def check_compiler(plan: Plan) -> Check:
    """Triton compiles a launcher for each of its kernels, with the C compiler."""
    named = os.environ.get("CC")
    names = [named] if named else ["gcc", "clang", "cc"]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found:
        return Check("C compiler", "ok", found)
    return Check("C compiler", plan.without_gpu, "none", "install gcc (apt install gcc libc6-dev)")


def check_headers(plan: Plan) -> Check:
    """The launchers include Python.h."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if header.is_file():
        return Check("Python headers", "ok", str(header))
    package = f"python{sysconfig.get_python_version()}-dev"
    advice = f"install them (apt install {package})"
    return Check("Python headers", plan.without_gpu, f"no {header}", advice)


def check_memory(plan: Plan, available: int, *, on_gpu: bool) -> Check:
    """available: bytes that processes can have. on_gpu: whether the weights go to a GPU."""
    fact = f"{size(available)} available"
    needed: float = _BESIDE
    on_cpu = plan.engine_here and not on_gpu and not plan.needs_gpu
    if on_cpu:
        needed += (plan.weights or 0) * DEQUANTISED
    if available >= needed:
        return Check("memory", "ok", fact)
    status: Status = "failed" if on_cpu and plan.weights else "warning"
    return Check("memory", status, fact, f"this model needs {size(needed)}: serve it elsewhere")


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that can be taken: of the machine, or what a container's limit leaves."""
    lines = _read(root / "proc/meminfo").splitlines()
    values = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    free = int(values["MemAvailable"][0]) * 1024 if "MemAvailable" in values else _physical()
    container = container_memory(root)
    return free if container is None else min(free, container.limit - container.used)


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def check_disk(name: str, folder: Path, advice: str) -> Check:
    """Whether `folder`, or where it would be made, has room and is writable."""
    try:
        there = nearest(folder)
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Check(name, "failed", f"{folder} cannot be written: {error.strerror}", advice)
    fact = f"{size(free)} free for {folder}"
    if not _takes_files(there):
        return Check(name, "failed", f"{there} cannot be written", advice)
    status: Status = "ok" if free >= _LITTLE else "warning"
    return Check(name, status, fact, "" if status == "ok" else "it is nearly full: make room")


def nearest(folder: Path) -> Path:
    """The folder, or the innermost around it that exists. Raises OSError, as for a long name."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made in the folder. What root may write may still be of the kernel."""
    try:
        with TemporaryFile(dir=folder):
            return os.access(folder, os.W_OK)
    except OSError:
        return False
