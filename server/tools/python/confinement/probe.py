"""Finds out which layers of confinement work on this machine, by using them."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from server.tools.python.confinement import landlock, seccomp
from server.tools.python.confinement.command import Folders, Layers, Process, guarded

ON = "on"
SECONDS = 20.0
"""How long one attempt may take."""
FIRST_USER = 0x10000000
"""The first of the user ids that sessions get, and their number. No account has one of them."""

_CHECKS = {
    "bubblewrap": "import os; assert os.getpid() < 9, 'the process sees others'",
    "landlock": (
        "try: open('../outside'); raise SystemExit('it does not restrict files')\n"
        "except PermissionError: open('file', 'w').close()"
    ),
    "seccomp": (
        "import socket\n"
        "try: socket.socket(); raise SystemExit('it does not refuse sockets')\n"
        "except PermissionError: pass"
    ),
    "user": f"import os; assert os.getuid() >= {FIRST_USER}, 'the user did not change'",
}
"""By layer: a program that fails without it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found.

    layers: those to use. report: each layer, and `on` or why it is off. problem: why the layers
    are too few; None if they will do.
    """

    layers: Layers
    report: Mapping[str, str]
    problem: str | None


def probe() -> Probe:
    """Try each layer. Takes about 0.1 s; starts processes, which have ended when it returns."""
    if platform.system() != "Linux":
        reason = f"it needs Linux, and this is {platform.system()}"
        return Probe(Layers(), dict.fromkeys(_CHECKS, reason), reason)
    user = os.geteuid() == 0
    program = shutil.which("bwrap")
    attempts = {
        "bubblewrap": Layers(bubblewrap=program, user=user),
        "landlock": Layers(landlock=True),
        "seccomp": Layers(seccomp=True),
        "user": Layers(user=True),
    }
    missing = {
        "bubblewrap": "" if program else "bwrap is not installed",
        "landlock": "" if landlock.version() > 0 else "the kernel has no Landlock",
        "seccomp": "" if seccomp.available() else f"no filter for {platform.machine()}",
        "user": "" if user else "the server does not run as root",
    }
    with ThreadPoolExecutor(len(attempts)) as pool:
        tried = pool.map(lambda name: missing[name] or _attempt(name, attempts[name]), attempts)
        return decide(dict(zip(attempts, tried, strict=True)), program, root=user)


def decide(report: Mapping[str, str], program: str | None, *, root: bool) -> Probe:
    """The layers to use, from what was found. root: whether the server runs as root."""
    on = {name for name, found in report.items() if found == ON}
    wrapped = program if "bubblewrap" in on else None
    if wrapped and root:
        report = {**report, "user": ON}
    layers = Layers(
        bubblewrap=wrapped,
        landlock="landlock" in on,
        seccomp="seccomp" in on,
        # In bubblewrap, the interpreter can be read whatever folder it is in.
        user=root and (wrapped is not None or "user" in on),
    )
    return Probe(layers, report, _problem(layers, report, root=root))


def _problem(layers: Layers, report: Mapping[str, str], *, root: bool) -> str | None:
    if not layers.seccomp:
        # Namespaces close neither keys nor sockets to the host of a virtual machine.
        return f"seccomp does not work ({report['seccomp']})"
    if layers.bubblewrap:
        return None
    wrapped = f"bubblewrap does not work ({report['bubblewrap']})"
    if not layers.landlock:
        return f"{wrapped}, and neither does Landlock ({report['landlock']})"
    if root and not layers.user:
        return f"{wrapped}, and sessions cannot run as users of their own ({report['user']})"
    return None


def _attempt(name: str, layers: Layers) -> str:
    """`on`, or why the layer does not work."""
    try:
        return _tried(name, layers)
    except OSError as error:
        # Such as in a container whose root may not give folders to others.
        return str(error)


def _tried(name: str, layers: Layers) -> str:
    """As `_attempt`. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="gpt-oss-probe-") as folder:
        os.chmod(folder, 0o711)
        user = FIRST_USER if layers.user else None
        folders = Folders.make(Path(folder), user)
        Path(folder, "outside").touch()
        process = Process((sys.executable, "-I", "-S", "-c", _CHECKS[name]), folders, user=user)
        return _result(guarded(process, layers, {}))


def _result(command: list[str]) -> str:
    """As `_attempt`, from the guard's command. Raises OSError."""
    # The guard ends the program when its standard input ends.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={},
        start_new_session=True,
    ) as guard:
        assert guard.stdin is not None
        assert guard.stderr is not None
        try:
            status = guard.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return f"an attempt took longer than {SECONDS:g} s"
        finally:
            guard.stdin.close()
        lines = guard.stderr.read(4096).decode(errors="backslashreplace").strip().splitlines()
    if status == 0:
        return ON
    return lines[-1] if lines else f"an attempt ended with status {status}"
