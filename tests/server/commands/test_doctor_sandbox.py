import os
from pathlib import Path

import pytest

from server.commands.doctor_sandbox import (
    check_docker,
    check_landlock,
    check_namespaces,
    check_program,
    check_sandbox,
    check_seccomp,
    landlock_version,
)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_no_layer_is_needed_to_serve() -> None:
    assert "failed" not in {check.status for check in check_sandbox()}


def test_user_namespaces(programs: Path, tmp_path: Path) -> None:
    program(programs, "unshare", "exit 0")
    assert check_namespaces(tmp_path).status == "ok"
    program(programs, "unshare", "echo 'unshare failed' >&2; exit 1")
    refused = check_namespaces(tmp_path)
    assert (refused.status, refused.fact) == ("warning", "refused: unshare failed")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ],
)
def test_the_setting_that_forbids_user_namespaces_is_named(
    programs: Path, tmp_path: Path, name: str, value: str
) -> None:
    file = tmp_path / "proc/sys" / name
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    assert name in check_namespaces(tmp_path).fact


def test_landlock() -> None:
    assert check_landlock(4).fact == "version 4"
    assert check_landlock(-1).status == "warning"
    assert check_landlock(landlock_version()).name == "Landlock"


def test_seccomp(tmp_path: Path) -> None:
    assert check_seccomp(tmp_path).status == "warning"
    file = tmp_path / "proc/sys/kernel/seccomp/actions_avail"
    file.parent.mkdir(parents=True)
    file.write_text("kill errno\n")
    assert check_seccomp(tmp_path).fact == "kill errno"


def test_a_program(programs: Path) -> None:
    assert "apt install bubblewrap" in check_program("bubblewrap", "bwrap").advice
    program(programs, "bwrap", "")
    assert check_program("bubblewrap", "bwrap").status == "ok"


def test_docker(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "DOCKER_HOST": ""})
    assert check_docker().fact == "not installed"
    program(programs, "docker", "exit 1")
    assert check_docker().fact == "no daemon answers"
    program(programs, "docker", "echo 28.1")
    assert check_docker().fact == "28.1"
