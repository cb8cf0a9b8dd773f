"""What the server does with the output of a session's process, without such a process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from server.tools.python import live as module
from server.tools.python.frames import Output, request
from server.tools.python.live import LiveProcess, _Cell
from server.tools.python.sandbox import CellEnd, CellEvent, OutputText

PIECES = 5
LONG = b"x" * (PIECES * module._PIECE)


class FakeGuard:
    pid = 1

    async def wait(self) -> int:
        await asyncio.Event().wait()
        raise AssertionError


class FakeDescriptors:
    """Has some output, once."""

    readable: tuple[int, ...] = ()
    ended = False
    open = True

    def __init__(self, frames: bytes, stdout: bytes) -> None:
        self._content = [({"stdout": stdout, "stderr": b""}, frames)]

    def read(self) -> tuple[dict[str, bytes], bytes]:
        return self._content.pop()


def new_cell(most: int = 1 << 20) -> _Cell:
    return _Cell(most, asyncio.get_running_loop().time() + 60, None)


async def steps(cell: _Cell, frames: bytes, stdout: bytes) -> AsyncIterator[list[CellEvent]]:
    """The events of each step until the cell ends."""
    guard: Any = FakeGuard()
    descriptors: Any = FakeDescriptors(frames, stdout)
    process = LiveProcess(guard, descriptors, None)
    while True:
        events = await process._step(cell)
        yield events
        if events and isinstance(events[-1], CellEnd):
            process._ended.cancel()
            return


def last(cell: _Cell) -> bytes:
    content = b'{"event": "end", "cell": "%s", "raised": false}' % cell.id.encode()
    return len(content).to_bytes(4, "big") + content


async def test_output_comes_in_pieces_before_the_end_of_its_cell() -> None:
    cell = new_cell()
    found = [events async for events in steps(cell, last(cell), LONG)]
    assert [len(events) for events in found] == [1] * (PIECES - 1) + [2]
    texts = [event.text for events in found for event in events if isinstance(event, OutputText)]
    assert "".join(texts).encode() == LONG


async def test_frames_come_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_FRAMES", 2)
    cell = new_cell()
    value = request(event="text", cell=cell.id, stream="result", text="1")
    found = [events async for events in steps(cell, value * 5 + last(cell), b"")]
    assert [len(events) for events in found] == [2, 2, 2]


async def test_others_run_while_output_is_decoded() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    cell = new_cell()
    seen = [turns async for _ in steps(cell, last(cell), LONG)]
    other.cancel()
    assert len(set(seen)) == PIECES


async def test_what_would_not_be_kept_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    class Counted(Output):
        def feed(self, content: bytes, *, last: bool = False) -> str:
            decoded.append(len(content))
            return super().feed(content, last=last)

    monkeypatch.setattr(module, "Output", Counted)
    cell = new_cell(100)
    cell.add({"stdout": LONG, "stderr": b""})
    while cell.has_output:
        cell.text()
    assert sum(decoded) == module._PIECE
