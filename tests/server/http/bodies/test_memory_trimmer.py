import asyncio

import pytest

from server.http.bodies import memory_trimmer
from server.http.bodies.memory_trimmer import LARGE, MemoryTrimmer


class Trims:
    """Counts them; `done` is set by each."""

    def __init__(self) -> None:
        self.count = 0
        self.done = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> None:
        self.count += 1
        self._loop.call_soon_threadsafe(self.done.set)


async def test_large_bodies_that_end_together_share_a_trim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_trimmer, "DELAY", 0)
    trims = Trims()
    memory = MemoryTrimmer(trims)
    for expected in (1, 2):
        for _ in range(10):
            memory.note(LARGE)
        await trims.done.wait()
        trims.done.clear()
        assert trims.count == expected


async def test_small_bodies_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_trimmer, "DELAY", 0)
    trims = Trims()
    memory = MemoryTrimmer(trims)
    memory.note(LARGE - 1)
    memory.note(LARGE)
    await trims.done.wait()
    assert trims.count == 1


async def test_a_trim_is_possible_at_once() -> None:
    trims = Trims()
    MemoryTrimmer(trims).trim()
    assert trims.count == 1
