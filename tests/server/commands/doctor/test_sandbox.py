import os
from pathlib import Path

import pytest

from server.commands.doctor.check import Check
from server.commands.doctor.sandbox import check_docker, check_layer, check_sandbox, check_together
from server.tools.python.confinement.command import Layers
from server.tools.python.confinement.probe import Probe


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_no_layer_is_needed_to_serve() -> None:
    checks = check_sandbox()
    assert "failed" not in {check.status for check in checks}
    assert "Python sandbox" in {check.name for check in checks}


def test_a_layer_that_is_off_says_why_and_what_to_do() -> None:
    assert check_layer("landlock", "on").fact == "works"
    off = check_layer("bubblewrap", "bwrap is not installed")
    assert (off.status, off.fact) == ("warning", "bwrap is not installed")
    assert "apt install bubblewrap" in off.advice


def test_a_server_need_not_be_root() -> None:
    assert check_layer("user", "the server does not run as root").status == "ok"


def test_the_layers_together() -> None:
    report = {"landlock": "on", "seccomp": "on", "user": "no"}
    assert check_together(Probe(Layers(), report, None)).fact == "landlock, seccomp"
    missing = check_together(Probe(Layers(), report, "too few"))
    assert (missing.status, missing.fact) == ("warning", "too few")


def test_docker(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "DOCKER_HOST": ""})
    assert check_docker() == Check("Docker", "ok", "not installed; only `docker compose` needs one")
    program(programs, "docker", "exit 1")
    assert check_docker().fact == "no daemon answers; only `docker compose` needs one"
    program(programs, "docker", "echo 28.1")
    assert check_docker().fact == "28.1"
