"""Checks of the layers that can confine code which a model wrote. They are only reported."""

import ctypes
import os
import platform
import shutil
from pathlib import Path

from server.commands.doctor_check import Check, run

_LANDLOCK_CREATE_RULESET = 444
_VERSION = 1
"""The flag by which the call returns the version of the interface."""


def check_sandbox(root: Path = Path("/")) -> list[Check]:
    """A check for each layer; one that lacks is a warning, since nothing needs it yet."""
    return [
        check_namespaces(root),
        check_landlock(landlock_version()),
        check_seccomp(root),
        check_program("bubblewrap", "bwrap"),
        check_docker(),
    ]


def check_namespaces(root: Path) -> Check:
    """Whether a user without rights may make a user namespace."""
    status, text = run("unshare", "--user", "--map-root-user", "true")
    if status == 0:
        return Check("user namespaces", "ok", "this user can make them")
    names = ("user/max_user_namespaces", "kernel/unprivileged_userns_clone")
    closed = [name for name in names if _read(root / "proc/sys" / name) == "0"]
    apparmor = "kernel/apparmor_restrict_unprivileged_userns"
    if _read(root / "proc/sys" / apparmor) == "1":
        closed.append(apparmor)
    reason = ", ".join(closed) or text.splitlines()[0]
    advice = "allow them with sysctl; in a container, with a seccomp profile that has unshare"
    return Check("user namespaces", "warning", f"refused: {reason}", advice)


def landlock_version() -> int:
    """The version of the kernel's Landlock, -1 where it has none."""
    if platform.system() != "Linux":
        return -1
    call = ctypes.CDLL(None, use_errno=True).syscall
    return int(call(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def check_landlock(found: int) -> Check:
    """found: its version, less than 1 where there is none."""
    if found >= 1:
        return Check("Landlock", "ok", f"version {found}")
    advice = "boot a kernel of 5.13 or later with landlock among its security modules (lsm=)"
    return Check("Landlock", "warning", "not there", advice)


def check_seccomp(root: Path) -> Check:
    """Whether the kernel filters system calls."""
    actions = _read(root / "proc/sys/kernel/seccomp/actions_avail")
    if actions:
        return Check("seccomp", "ok", actions)
    return Check("seccomp", "warning", "not there", "boot a kernel with CONFIG_SECCOMP_FILTER")


def check_program(name: str, program: str) -> Check:
    """Whether a program is installed."""
    path = shutil.which(program)
    if path:
        return Check(name, "ok", path)
    return Check(name, "warning", "not installed", f"install it (apt install {name})")


def check_docker() -> Check:
    """Whether this user reaches a Docker daemon."""
    status, text = run("docker", "version", "--format", "{{.Server.Version}}", seconds=5)
    if status == 0:
        return Check("Docker", "ok", text)
    advice = "install Docker and add this user to its group; DOCKER_HOST names a daemon elsewhere"
    host = os.environ.get("DOCKER_HOST", "")
    fact = "not installed" if status is None else "no daemon answers"
    return Check("Docker", "warning", f"{fact} {host}".strip(), advice)


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
