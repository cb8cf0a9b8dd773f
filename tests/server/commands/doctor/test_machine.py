import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from server.commands.doctor.check import Plan
from server.commands.doctor.machine import (
    available_memory,
    check_compiler,
    check_disk,
    check_headers,
    check_memory,
    check_system,
)

GB = 1_000_000_000
BIG = Plan("transformers", True, True, True, 13_800_000_000)
DEMO = Plan("transformers", True, True, False, 0)
ON_CPU = Plan("transformers", True, False, False, 13_800_000_000)


def test_the_system_is_named() -> None:
    assert "Python 3." in check_system().fact


@pytest.mark.parametrize(("plan", "status"), [(BIG, "failed"), (DEMO, "warning"), (ON_CPU, "ok")])
def test_without_a_compiler(plan: Plan, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    check = check_compiler(plan)
    assert (check.status, "gcc" in check.advice) == (status, True)


def test_the_compiler_may_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "my-cc"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert check_compiler(BIG).fact == str(compiler)


def test_pythons_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    missing = check_headers(BIG)
    assert missing.status == "failed"
    assert "-dev" in missing.advice
    (tmp_path / "Python.h").touch()
    assert check_headers(BIG).status == "ok"


@pytest.mark.parametrize(
    ("plan", "available", "on_gpu", "status"),
    [
        (DEMO, 8, False, "ok"),
        (DEMO, 1, False, "warning"),
        (ON_CPU, 40, False, "failed"),
        (ON_CPU, 64, False, "ok"),
        (BIG, 16, True, "ok"),
        (BIG, 16, False, "ok"),  # another check reports the missing GPU
    ],
)
def test_memory(plan: Plan, available: int, on_gpu: bool, status: str) -> None:
    check = check_memory(plan, available * GB, on_gpu=on_gpu)
    assert check.status == status
    assert f"{available}.0 GB" in check.fact


def test_a_containers_limit_is_what_memory_there_is(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    8000000 kB\n")
    assert available_memory(tmp_path) == 8_000_000 * 1024
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("3000\n")
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("1000\n")
    assert available_memory(tmp_path) == 2000


def test_without_proc_the_whole_memory_counts(tmp_path: Path) -> None:
    assert available_memory(tmp_path) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(("free", "status"), [(2, "ok"), (0.5, "warning")])
def test_a_disk(free: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=int(free * GB))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    check = check_disk("disk", tmp_path / "not/there", "go elsewhere")
    assert check.status == status


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert check_disk("disk", tmp_path, "go elsewhere").advice == "go elsewhere"


def test_a_folder_that_cannot_be_looked_for(tmp_path: Path) -> None:
    check = check_disk("disk", tmp_path / ("a" * 300), "go elsewhere")
    assert (check.status, check.fact.endswith(": File name too long")) == ("failed", True)
