"""Which layers are used, and why they would be too few."""

import errno
import os
import platform
import shutil
import sys

import pytest

from server.tools.python.confinement import probe as module
from server.tools.python.confinement.command import Layers
from server.tools.python.confinement.probe import ON, decide, probe

ALL = {"bubblewrap": ON, "landlock": ON, "seccomp": ON, "user": ON}


def without(*names: str) -> dict[str, str]:
    return {**ALL, **dict.fromkeys(names, "broken")}


def test_all_layers_that_work_are_used() -> None:
    found = decide(ALL, "/bwrap", root=True)
    assert found.layers == Layers("/bwrap", landlock=True, seccomp=True, user=True)
    assert found.problem is None


@pytest.mark.parametrize("names", [("landlock",), ("landlock", "user")])
def test_bubblewrap_and_seccomp_will_do(names: tuple[str, ...]) -> None:
    found = decide(without(*names), "/bwrap", root=True)
    assert found.problem is None
    # In bubblewrap, every user can reach the interpreter.
    assert found.layers.user
    assert found.report["user"] == ON


@pytest.mark.parametrize("names", [(), ("bubblewrap",), ("landlock",)])
def test_nothing_will_do_without_seccomp(names: tuple[str, ...]) -> None:
    found = decide(without("seccomp", *names), "/bwrap", root=False)
    assert found.problem == "seccomp does not work (broken)"


def test_landlock_and_seccomp_will_do() -> None:
    found = decide(without("bubblewrap", "user"), "/bwrap", root=False)
    assert found.problem is None
    assert found.layers == Layers(None, landlock=True, seccomp=True, user=False)


def test_seccomp_alone_will_not_do() -> None:
    found = decide(without("bubblewrap", "landlock"), None, root=False)
    expected = "bubblewrap does not work (broken), and neither does Landlock (broken)"
    assert found.problem == expected


def test_root_needs_users_for_its_sessions() -> None:
    problem = decide(without("bubblewrap", "user"), None, root=True).problem
    assert problem is not None
    assert "users of their own (broken)" in problem


def test_other_systems_have_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    found = probe()
    assert found.problem == "it needs Linux, and this is Darwin"
    assert set(found.report.values()) == {found.problem}


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert probe().report["bubblewrap"] == "bwrap is not installed"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("name", ["bubblewrap", "landlock", "seccomp", "user"])
def test_a_layer_that_does_nothing_is_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "guarded", lambda process, layers, descriptors: process.command)
    state = module._attempt(name, Layers())
    assert state != ON
    assert state


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_an_attempt_that_cannot_start_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "guarded", lambda process, layers, descriptors: ["/missing"])
    assert "No such file" in module._attempt("seccomp", Layers())


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL])
def test_folders_that_cannot_be_given_to_users_are_a_problem(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose root has not all rights, or not all users."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", refused)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = probe()
    assert found.problem is not None
    assert os.strerror(number) in found.report["user"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_an_attempt_that_fails_or_does_not_end_is_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert module._result(["/bin/sh", "-c", "exit 3"]) == "an attempt ended with status 3"
    monkeypatch.setattr(module, "SECONDS", 0.01)
    assert module._result(["/bin/cat"]) == "an attempt took longer than 0.01 s"
