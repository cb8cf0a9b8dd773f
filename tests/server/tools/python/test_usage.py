"""What the processes of a session use together, of processes that are made up."""

from collections.abc import Iterator

import pytest

from server.tools.python import usage
from server.tools.python.usage import Usage, measure, processes_below


def test_of_endless_processes_no_more_are_counted_than_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that forks without end makes them faster than they are counted."""
    asked = []

    def children(pid: int) -> Iterator[int]:
        asked.append(pid)
        yield from (2 * pid, 2 * pid + 1)

    monkeypatch.setattr(usage, "_children", children)
    monkeypatch.setattr(usage, "_fields", lambda path: pytest.fail("it reads what they use"))
    used = measure(1, 1 << 30, 10)
    assert used.processes > 10
    assert len(asked) <= 10


def test_memory_and_threads_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    below = {1: [2, 3], 3: [4]}
    monkeypatch.setattr(usage, "_children", lambda pid: iter(below.get(pid, [])))
    status = {"RssAnon": 2, "RssShmem": 1, "Threads": 2}
    monkeypatch.setattr(usage, "_fields", lambda path: status)
    assert sorted(processes_below(1)) == [2, 3, 4]
    assert measure(1, 1 << 30, 3) == Usage(3 * 3 * 1024, 6)
