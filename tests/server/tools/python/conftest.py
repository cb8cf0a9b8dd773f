"""Sandboxes in processes of their own: by user, and by the layers that confine their sessions."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from server.tools.python import live
from server.tools.python import process as process_module
from server.tools.python.confinement import landlock
from server.tools.python.confinement.probe import probe
from tests.containers import World, new_world
from tests.server.tools.python.cells import reachable_root

ROOT = Path(__file__).parents[4]
NOBODY = 65534
SECRET = "a-secret-of-the-server"
BWRAP = shutil.which("bwrap")
LINUX = sys.platform == "linux"

COMBINATIONS = {
    f"{user}-{layers}": (user == "root", names)
    for user in ("root", "user")
    for layers, names in {
        "bubblewrap": {"bubblewrap", "landlock", "seccomp"},
        "landlock": {"landlock", "seccomp"},
        "bubblewrap-seccomp": {"bubblewrap", "seccomp"},
    }.items()
}
"""By name: whether the server is root, and the layers that are used."""


probed_once = cache(probe)
"""What works here does not change. Each attempt takes half a second of the processor."""


@pytest.fixture(autouse=True)
def remember_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "probe", probed_once)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted cells may go on for long: a busy machine ends them late."""
    monkeypatch.setattr(live, "GRACE_SECONDS", 30.0)


class Box:
    """A sandbox that a driver runs."""

    def __init__(
        self, process: subprocess.Popen[str], folder: Path, layers: Mapping[str, object]
    ) -> None:
        self.process = process
        self.layers = {name for name, used in layers.items() if used}
        self.folder = folder
        self.pid = process.pid
        self.problem = self._answer()["problem"]

    def do(self, name: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": name, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def create(self, session: str, **limits: int) -> Path:
        """Make a session. Returns the true path of its folder."""
        return Path(self.do("create", session=session, limits=limits)["value"])

    def cell(self, session: str, code: str, timeout: float = 60) -> "Outcome":
        return Outcome(self.do("cell", session=session, code=code, timeout=timeout)["value"])

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


class Outcome:
    """What a cell did."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events
        self.text = "".join(event.get("text", "") for event in events)
        self.outcome = events[-1]["outcome"]
        self.reason = events[-1]["reason"]


@contextmanager
def running(name: str, *, variables: dict[str, str] | None = None) -> Iterator[Box]:
    """A sandbox of one of the combinations; the test is skipped where this machine lacks it."""
    as_root, used = COMBINATIONS[name]
    if not LINUX or (as_root and os.geteuid() != 0):
        pytest.skip("needs root on Linux")
    if "bubblewrap" in used and BWRAP is None:
        pytest.skip("bubblewrap is not installed")
    if "bubblewrap" not in used and landlock.version() < 1:
        pytest.skip("the kernel has no Landlock")
    layers = {
        "bubblewrap": BWRAP if "bubblewrap" in used else None,
        "landlock": "landlock" in used and landlock.version() >= 1,
        "seccomp": "seccomp" in used,
        "user": as_root,
    }
    folder = Path(tempfile.mkdtemp(prefix="gpt-oss-sandbox-"))
    driver = [sys.executable, "-B", str(Path(__file__).with_name("driver.py"))]
    command = [*driver, str(folder / "root"), json.dumps(layers)]
    if os.geteuid() == 0:
        folder.chmod(0o711)
        command = reachable(command if as_root else as_nobody(command))
        if not as_root:
            os.chown(folder, NOBODY, NOBODY)
    environment = {**os.environ, "SERVER_SECRET": SECRET, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment, **(variables or {})},
        text=True,
        cwd="/",
    ) as process:
        try:
            yield Box(process, folder, layers)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60)
            finally:
                process.kill()
                process.wait()
                subprocess.run(["rm", "-rf", str(folder)], check=True)


def as_nobody(command: list[str]) -> list[str]:
    """The command, run by a user without rights."""
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    return ["setpriv", *user, *command]


def reachable(command: list[str]) -> list[str]:
    """The command, run where every user can reach the interpreter and the sources.

    Where they are below a folder that is closed to others, such as /root, that folder is replaced
    by one that has nothing else, for this command alone.
    """
    needed = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
    closed = {
        parent for path in needed for parent in path.parents if not parent.stat().st_mode & 0o001
    }
    if not closed:
        return command
    script = []
    for folder in closed:
        inside = [path for path in sorted(needed) if path.is_relative_to(folder)]
        for number, path in enumerate(inside):
            script.append(f"mkdir -p /run/reach{number}; mount --bind {path} /run/reach{number}")
        script.append(f"mount -t tmpfs -o mode=755 none {folder}")
        for number, path in enumerate(inside):
            script.append(f"mkdir -p {path}; mount --bind /run/reach{number} {path}")
            script.append(f"umount /run/reach{number}")
    line = "set -e; " + "; ".join(script) + '; exec "$@"'
    return ["unshare", "--mount", "sh", "-c", line, "sh", *command]


@pytest.fixture(scope="session", params=list(COMBINATIONS))
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """A sandbox of each combination, with the sessions `attacker` and `victim`."""
    with running(request.param) as found:
        assert found.problem is None
        found.create("attacker")
        found.create("victim")
        found.do("write", session="victim", path="secret.txt", content=SECRET)
        assert found.cell("victim", f"secret = {SECRET!r}").outcome == "completed"
        # Where the process that waited was taken, this is another folder than that of before.
        assert (found.create("victim") / "data" / "secret.txt").read_text() == SECRET
        yield found


@pytest.fixture
def open_box() -> Callable[[str], Any]:
    """Opens a sandbox of its own for one test."""
    return running


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with new_world(tmp_path) as made:
        yield made


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder for sessions that the users of sessions can reach."""
    with reachable_root() as root:
        yield root
