import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from adapters.local.engine import step_threads
from adapters.local.engine.step_threads import StepThreads, Usage, own_cores, usage


class Machine:
    """A machine whose usage is set, and a clock that runs from reading to reading."""

    def __init__(self) -> None:
        self.now = Usage(0.0, 0.0, 0.0)
        self.applied: list[int] = []

    def read(self, _: frozenset[int]) -> Usage:
        return self.now

    def run(self, seconds: float, own: float, others: float) -> None:
        """Let time pass in which this and other processes use so many cores."""
        self.now = Usage(
            self.now.at + seconds,
            self.now.own + own * seconds,
            self.now.everyone + (own + others) * seconds,
        )


def take_step(threads: StepThreads, machine: Machine, own: float, others: float) -> None:
    """A step of 0.3 seconds in which this and other processes use so many cores."""
    with threads.step():
        machine.run(0.3, own, others)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(time, "monotonic", lambda: made.now.at)
    return made


def threads_of(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, most: int, cores: int
) -> StepThreads:
    monkeypatch.setattr(torch, "get_num_threads", lambda: most)
    return StepThreads(frozenset(range(cores)), machine.read, machine.applied.append)


@pytest.mark.parametrize(
    ("most", "cores", "own", "others", "expected"),
    [
        (2, 2, 1.0, 1.0, [1]),
        (2, 2, 0.5, 1.5, [1]),
        (2, 2, 2.0, 0.1, []),
        (8, 8, 3.0, 5.0, [3]),
        (4, 4, 0.0, 9.0, [1]),
        (4, 64, 4.0, 10.0, []),
        (4, 64, 4.0, 61.0, [3]),
        (8, 2, 1.0, 1.0, [1]),
    ],
)
def test_threads_are_as_many_as_the_cores_that_others_leave(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    cores: int,
    own: float,
    others: float,
    expected: list[int],
) -> None:
    threads = threads_of(machine, monkeypatch, most, cores)
    take_step(threads, machine, own, others)
    assert machine.applied == expected


def test_all_threads_are_used_again_when_the_others_have_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of(machine, monkeypatch, 2, 2)
    for others in (1.5, 1.4, 0.0):
        take_step(threads, machine, 0.6, others)
    assert machine.applied == [1, 2]


def test_others_that_ran_in_a_pause_change_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of(machine, monkeypatch, 2, 2)
    for _ in range(3):
        take_step(threads, machine, 1.9, 0.0)
        machine.run(1.0, 0.0, 2.0)
    assert machine.applied == []


def test_steps_between_pauses_follow_the_machine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of(machine, monkeypatch, 2, 2)
    for others in (1.4, 1.4, 0.0, 0.0):
        take_step(threads, machine, 0.6, others)
        machine.run(1.0, 0.0, 0.0)
    assert machine.applied == [1, 2]


def test_a_usage_that_cannot_be_read_once_is_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of(machine, monkeypatch, 2, 2)
    with monkeypatch.context() as patch:
        patch.setattr(threads, "_read", lambda _: None)
        machine.run(1.0, 0.0, 0.0)
        take_step(threads, machine, 0.6, 1.4)
    machine.run(1.0, 0.0, 0.0)
    take_step(threads, machine, 0.6, 1.4)
    assert machine.applied == [1]


def test_the_machine_is_not_read_at_each_step(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of(machine, monkeypatch, 2, 2)
    with threads.step():
        machine.run(0.1, 0.0, 2.0)
    assert machine.applied == []


def test_a_step_that_fails_counts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threads_of(machine, monkeypatch, 2, 2)
    with suppress(ValueError), threads.step():
        machine.run(0.3, 0.6, 1.4)
        raise ValueError
    assert machine.applied == [1]


@pytest.mark.parametrize("content", [None, "", "cpu none", "cpu0 none", "cpu7 1 2 3 4 5 6 7 8"])
def test_an_unknown_usage_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "stat").write_text(content)
    monkeypatch.setattr(step_threads, "_STAT", tmp_path / "stat")
    assert usage(frozenset({0})) is None
    applied: list[int] = []
    with StepThreads(frozenset({0}), apply=applied.append).step():
        pass
    assert applied == []


def test_only_the_cores_of_the_process_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"cpu{core} {1000 * core} 0 0 5 0 0 0 0" for core in (1, 3, 12)]
    (tmp_path / "stat").write_text("\n".join(["cpu 16000 0 0 15 0 0 0 0", *lines, "intr 9"]))
    monkeypatch.setattr(step_threads, "_STAT", tmp_path / "stat")
    found = usage(frozenset({1, 12}))
    assert found is not None
    assert found.everyone == 13_000 / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="Linux only")
def test_own_and_all_processor_time_grow_together() -> None:
    def grown(since: Usage) -> tuple[float, float]:
        now = usage(own_cores())
        assert now is not None
        return now.own - since.own, now.everyone - since.everyone

    before = usage(own_cores())
    assert before is not None
    until(lambda: grown(before)[0] >= 0.2)
    own, everyone = grown(before)
    assert own - 0.1 <= everyone <= (time.monotonic() - before.at + 0.1) * (os.cpu_count() or 1)


def until(done: Callable[[], bool]) -> None:
    while not done():
        sum(range(10_000))
