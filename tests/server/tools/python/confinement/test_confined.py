"""Landlock and seccomp in a process that goes on in Python."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from server.tools.python.confinement import landlock, seccomp

ROOT = Path(__file__).parents[5]
PRIVILEGES = "import ctypes; assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0\n"

pytestmark = pytest.mark.skipif(landlock.version() < 1, reason="the kernel has no Landlock")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_landlock_allows_what_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    (tmp_path / "write").mkdir()
    (tmp_path / "file").touch()
    code = (
        f"{PRIVILEGES}from server.tools.python.confinement import landlock\n"
        f"paths = ['{tmp_path}/read', {sys.prefix!r}, {sys.base_prefix!r}, '/usr', '/missing']\n"
        f"landlock.restrict(paths, ['{tmp_path}/write', '{tmp_path}/file', {str(ROOT)!r}])\n"
        f"open('{tmp_path}/write/x', 'w').close()\nopen('{tmp_path}/file', 'w').close()\n"
        f"for path in ('{tmp_path}/read/x', '{tmp_path}/x', '/etc/passwd'):\n"
        "    try: open(path, 'a')\n    except PermissionError: print('refused')\n"
    )
    assert run(code) == "refused\n" * 3


def test_seccomp_refuses_sockets() -> None:
    code = (
        f"{PRIVILEGES}from server.tools.python.confinement import seccomp\nimport socket\n"
        "seccomp.install(seccomp.Filter())\nsocket.socketpair()\n"
        "try: socket.socket()\nexcept PermissionError: print('refused')"
    )
    assert run(code) == "refused\n"


def test_what_the_kernel_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_syscall", lambda *arguments: -1)
    with pytest.raises(OSError, match="Landlock"):
        landlock.restrict([], [])


def test_a_filter_that_the_kernel_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "assemble", lambda *arguments: bytes(8))  # It never returns.
    with pytest.raises(OSError, match="seccomp"):
        seccomp.install(seccomp.Filter())


def test_other_systems_have_no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert landlock.version() == -1
