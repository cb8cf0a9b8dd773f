"""The limit on open files is raised to what the process needs."""

import resource

import pytest

from server.commands import python_sandbox
from server.commands.failure import CommandFailed
from server.commands.file_limit import raise_file_limit
from server.commands.python_sandbox import ServiceOptions, run_service


def test_as_many_files_may_be_open_as_are_needed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = []
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 3000))
    monkeypatch.setattr("resource.setrlimit", lambda _, pair: limits.append(pair))
    raise_file_limit(2024, "--max-connections 1000")
    assert (limits, caplog.records) == ([(2024, 3000)], [])
    raise_file_limit(5120, "--max-connections 4096")
    assert limits[1:] == [(3000, 3000)]
    assert caplog.messages == [
        "at most 3000 files may be open (ulimit -n), fewer than --max-connections 4096 needs"
    ]


def test_a_limit_on_open_files_is_never_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in ((5000, 5000), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        monkeypatch.setattr("resource.getrlimit", lambda _, pair=pair: pair)
        monkeypatch.setattr("resource.setrlimit", lambda *_: pytest.fail("it was set"))
        raise_file_limit(2024, "--max-connections 1000")


def test_a_service_of_many_sessions_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    needed: list[int] = []
    monkeypatch.setattr(python_sandbox, "raise_file_limit", lambda most, _: needed.append(most))
    monkeypatch.setattr(python_sandbox, "log_to_stderr", lambda _: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(CommandFailed):
        run_service(ServiceOptions(host="256.0.0.1", sessions=250))
    assert needed[0] > 5 * 250
