"""The commands that start a confined process: its guard, bubblewrap, and the program itself."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from server.tools.python.confinement import landlock
from server.tools.python.confinement.confine import Confinement

SOURCES = Path(__file__).parents[4]
"""The folder that has the package `server`."""
_PACKAGES = Path(__file__).parents[1]

DATA, TEMPORARY, SHARED_MEMORY = "/mnt/data", "/tmp", "/dev/shm"
"""The session's folders, as its process sees them in bubblewrap."""
_SHARED_MEMORY_SIZE = 64 << 20
"""Bytes. The kernel enforces it: files there may be mapped and nothing else, as semaphores are."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/timezone",
    "/sys/devices/system/cpu",
)
_DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_FACTS = ("/proc/cpuinfo", "/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of confinement that are used.

    bubblewrap: the path of the program, None without it. user: whether each session runs as a user
    of its own, which only root can do.
    """

    bubblewrap: str | None = None
    landlock: bool = False
    seccomp: bool = False
    user: bool = False


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a session: its files, and its temporary files."""

    data: Path
    temporary: Path

    @classmethod
    def below(cls, folder: Path) -> "Folders":
        """Those of the session whose folder this is."""
        return cls(folder / "data", folder / "tmp")

    @classmethod
    def make(cls, folder: Path, user: int | None) -> "Folders":
        """Make those below an existing folder. user: who will own them; None: this user."""
        folders = cls.below(folder)
        for each in (folders.data, folders.temporary):
            make_private(each, user)
        return folders


def make_private(folder: Path, user: int | None) -> None:
    """Make a folder that its owner alone can enter. user: the owner; None: this user."""
    folder.mkdir(mode=0o700)
    if user is not None:
        os.chown(folder, user, user)


@dataclass(frozen=True, slots=True)
class Process:
    """A process to start. command: run in the session's data folder. user: as in `Confinement`."""

    command: tuple[str, ...]
    folders: Folders
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    user: int | None = None
    core: int | None = None


def guarded(process: Process, layers: Layers, descriptors: Mapping[int, int]) -> list[str]:
    """The guard's command. descriptors: by number in the process, the number in the guard."""
    confined = _confined(process, layers)
    plan = {
        "command": confined if layers.bubblewrap is None else _wrapped(process, layers, confined),
        "descriptors": dict(descriptors),
    }
    return [*_program("guard"), json.dumps(plan)]


def readable() -> tuple[str, ...]:
    """The paths that every session may read: the interpreter, its packages, and the system's."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    # A virtual environment may be a link, which leads nowhere without its target.
    own |= {os.path.realpath(path) for path in own}
    paths = (*_SYSTEM, *sorted(own), *_SETTINGS, str(_PACKAGES))
    return tuple(dict.fromkeys(path for path in paths if os.path.exists(path)))


def _confined(process: Process, layers: Layers) -> list[str]:
    """The command of the program that confines itself before it runs the process's command."""
    wrapped = layers.bubblewrap is not None
    folders = process.folders
    write = (str(folders.data), str(folders.temporary))
    inner = (DATA, TEMPORARY, SHARED_MEMORY)
    version = landlock.version() if layers.landlock else 0
    # Where nothing else separates this process from those of the same user.
    shared = not wrapped and not layers.user
    confinement = Confinement(
        command=process.command,
        environment=process.environment,
        folder=DATA if wrapped else str(folders.data),
        limits=process.limits,
        read=(*readable(), *(("/proc",) if wrapped else _FACTS)) if layers.landlock else None,
        write=(*(inner if wrapped else write), *_DEVICES),
        filter={
            "signals": shared and version < landlock.SIGNALS_SINCE,
            # Landlock restricts neither; a file that others may write allows it.
            "metadata": not wrapped,
            "truncate": shared and version < landlock.TRUNCATE_SINCE,
        }
        if layers.seccomp
        else None,
        user=process.user if layers.user else None,
        core=process.core,
    )
    return [*_program("confine"), confinement.to_json()]


def _wrapped(process: Process, layers: Layers, command: list[str]) -> list[str]:
    """bubblewrap's command: namespaces of its own, and a file system of what may be read."""
    assert layers.bubblewrap is not None
    folders = process.folders
    own = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    # Root's own rights set up the namespaces, and end when the process becomes its user.
    spaces = [*own, "--unshare-cgroup-try"] if layers.user else ["--unshare-all"]
    paths = readable()
    # Otherwise bubblewrap makes parents that only its own user can enter.
    parents = sorted(
        {str(parent) for path in (*paths, DATA) for parent in Path(path).parents} - {"/"}
    )
    # First, because the interpreter may be below it.
    mounts = ["--bind", str(folders.temporary), TEMPORARY]
    mounts += [word for parent in parents for word in ("--perms", "0755", "--dir", parent)]
    for path in paths:
        if os.path.islink(path):
            mounts += ["--symlink", os.readlink(path), path]
        else:
            mounts += ["--ro-bind", path, path]
    return [
        layers.bubblewrap,
        *spaces,
        *("--die-with-parent", "--hostname", "sandbox"),
        *mounts,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--bind", str(folders.data), DATA),
        *("--perms", "1777", "--size", str(_SHARED_MEMORY_SIZE), "--tmpfs", SHARED_MEMORY),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", "/", "--"),
        *command,
    ]


def _program(name: str) -> list[str]:
    """The command of a program of this package. Without site, it starts in 15 ms."""
    start = (
        f"import sys; sys.path.append({str(SOURCES)!r}); "
        f"from server.tools.python.confinement.{name} import main; main()"
    )
    return [sys.executable, "-I", "-S", "-B", "-c", start]
