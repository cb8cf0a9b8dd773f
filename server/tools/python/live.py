"""The process of one session, seen from the server: it runs cells, one after another."""

import asyncio
import logging
import os
import secrets
import signal
from asyncio.subprocess import Process as Guard
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Literal, NamedTuple

from adapters.completion import completed
from server.tools.python.confinement.command import DATA, Layers, Process, guarded
from server.tools.python.frames import (
    Budget,
    FrameReader,
    InvalidFrame,
    Output,
    event_of,
    parse,
    request,
)
from server.tools.python.sandbox import (
    CellEnd,
    CellEvent,
    OutputImage,
    OutputText,
    SandboxUnavailable,
    unavailable_on_oserror,
)

logger = logging.getLogger(__name__)

READY_SECONDS = 60.0
"""How long a process may take to start. IPython's import takes 0.2 s on an idle machine."""
GRACE_SECONDS = 1.0
"""How long a cell may go on after it was interrupted."""
EXIT_SECONDS = 0.5
"""How long a process may take to end after it has closed its descriptors."""
END_SECONDS = 5.0
"""How long the guard may take to end all processes."""

_CHUNK = 1 << 16
_PARTS = 4
"""Chunks read at once. That is more than a pipe holds: what a cell wrote before a frame is read
with it."""
_PIECE = 1 << 14
"""Bytes of a stream that are decoded at once. That takes 3 ms where they are not UTF-8."""
_MOST_FRAMES = 128
"""Frames that are read at once."""
_REQUESTS, _EVENTS = 3, 4
_Stream = Literal["stdout", "stderr"]
_STREAMS: tuple[_Stream, ...] = ("stdout", "stderr")
_KILLED = 128 + signal.SIGKILL
_SIGNALS = {
    6: "it aborted",
    7: "it crashed (SIGBUS), as where /dev/shm is full",
    9: "it was killed",
    11: "it crashed (SIGSEGV)",
    24: "its CPU time was over",
}


class LiveProcess:
    """A process that runs cells. Made by `spawn`; `ready` comes before the first cell."""

    def __init__(self, guard: Guard, descriptors: "_Descriptors", folder: str | None) -> None:
        self._guard = guard
        self._folder = folder
        self._waiting = False
        self._descriptors = descriptors
        self._frames = FrameReader()
        self._loop = asyncio.get_running_loop()
        self._reason = ""
        self._ended = self._loop.create_task(guard.wait())
        self._ended.add_done_callback(self._log_end)

    @classmethod
    async def spawn(cls, process: Process, layers: Layers) -> "LiveProcess":
        """Start a process, which may not run Python yet; none is left if the caller is cancelled.

        Raises SandboxUnavailable.
        """
        spawning = asyncio.ensure_future(cls._spawn(process, layers))
        try:
            return await completed(spawning)
        except asyncio.CancelledError:
            if not spawning.cancelled() and spawning.exception() is None:
                await spawning.result().kill("")
            raise

    @classmethod
    async def _spawn(cls, process: Process, layers: Layers) -> "LiveProcess":
        with unavailable_on_oserror():
            descriptors, ends = _Descriptors.make()
        try:
            guard = await _start_guard(process, layers, ends)
        except BaseException as error:
            descriptors.close()
            if isinstance(error, OSError):
                raise SandboxUnavailable(f"no process can be started: {error}") from error
            raise
        finally:
            ends.close()
        folder = None if layers.bubblewrap else str(process.folders.data)
        return cls(guard, descriptors, folder)

    async def ready(self) -> None:
        """Wait until it can run cells. It is ended where that fails, or the caller is cancelled.

        Raises SandboxUnavailable, with what the process wrote to stderr.
        """
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ready()
        except (InvalidFrame, TimeoutError) as error:
            await self.kill("")
            raise SandboxUnavailable(f"the Python process does not start: {error}") from error
        except BaseException:
            await self.kill("")
            raise

    @property
    def pid(self) -> int:
        """The guard's process id: all processes of the session descend from it."""
        return self._guard.pid

    @property
    def alive(self) -> bool:
        """Whether it can run cells: it has not ended, and nobody has begun to end it."""
        return not self._ended.done() and self._descriptors.held

    async def run(self, code: str, seconds: float, most: int) -> AsyncGenerator[CellEvent, None]:
        """Run a cell, as `PythonSandbox.run` does.

        seconds: after which it is interrupted. most: the bytes of output to return.
        """
        running = _Cell(most, self._loop.time() + seconds, self._folder)
        finished = False
        try:
            try:
                async with asyncio.timeout_at(running.deadline):
                    await self._send(request(cell=running.id, code=code))
                while not finished:
                    for event in await self._step(running):
                        finished = isinstance(event, CellEnd)
                        yield event
            except (InvalidFrame, OSError, TimeoutError) as error:
                await self.kill(f"its protocol was violated: {error}")
                finished = True
                yield CellEnd("died", self._reason)
        finally:
            if not finished:
                await self._abandon(running)

    async def kill(self, reason: str) -> None:
        """End all its processes. reason: for the cell that runs; the first one counts."""
        self.end(reason)
        try:
            done, _ = await asyncio.wait({self._ended}, timeout=END_SECONDS)
            if not done:
                self._guard.kill()
                await asyncio.wait({self._ended}, timeout=END_SECONDS)
        finally:
            # Also after a cancellation: nobody else may know the process any more.
            if not self._waiting:
                self._descriptors.close()

    def end(self, reason: str) -> None:
        """End all its processes, soon: the guard sees the end of its input."""
        self._reason = self._reason or reason
        self._descriptors.release()

    async def _ready(self) -> None:
        stderr = b""
        while True:
            await self._readable()
            outputs, frames = self._descriptors.read()
            stderr = (stderr + outputs["stderr"])[-_CHUNK:]
            for frame in self._frames.feed(frames):
                if parse(frame).get("event") != "ready":
                    raise InvalidFrame("it sent something else first")
                return
            if self._descriptors.ended:
                lines = stderr.decode(errors="backslashreplace").strip().splitlines()
                raise InvalidFrame(lines[-1] if lines else "it ended without a message")

    async def _step(self, running: "_Cell") -> list[CellEvent]:
        """Wait for output, and return the events of a part of it, which is decoded in a moment."""
        try:
            async with asyncio.timeout_at(running.deadline):
                await self._read_for(running)
        except TimeoutError:
            if running.interrupted:
                await self.kill("it ignored the interrupt")
                return [CellEnd("timeout", self._reason)]
            running.interrupted = True
            running.deadline = self._loop.time() + GRACE_SECONDS
            await self._interrupt(running.id)
            return []
        events = running.text()
        if running.has_output:
            return events  # Frames come after what was written before them.
        for frame in islice(self._frames.complete(), _MOST_FRAMES):
            event = running.event(frame)
            if not isinstance(event, CellEnd):
                events += running.within(event)
                continue
            if running.interrupted:
                event = CellEnd("timeout")
            return [*events, *running.text(last=True), event]
        if self._descriptors.ended and not self._frames.has_frame:
            # Its own exit status says why, if it ended by itself.
            await asyncio.wait({self._ended}, timeout=EXIT_SECONDS)
            await self.kill("")
            outcome = CellEnd("timeout" if running.interrupted else "died", self._why())
            return [*events, *running.text(last=True), outcome]
        return events

    async def _read_for(self, running: "_Cell") -> None:
        """Read output once the last one is decoded; else let others run."""
        if running.has_output or self._frames.has_frame:
            await asyncio.sleep(0)
            return
        await self._readable()
        outputs, frames = self._descriptors.read()
        running.add(outputs)
        self._frames.feed(frames)

    async def _abandon(self, running: "_Cell") -> None:
        """Interrupt a cell that nobody waits for any more; kill the process if it goes on."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._interrupt(running.id)
                running.interrupted, running.deadline = True, self._loop.time() + GRACE_SECONDS
                while not any(isinstance(e, CellEnd) for e in await self._step(running)):
                    pass
        except (TimeoutError, InvalidFrame, OSError):
            await self.kill("it was cancelled")
        except BaseException:
            # Cancelled once more: there is no time left to wait.
            self.end("it was cancelled")
            raise

    async def _interrupt(self, cell: str) -> None:
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._send(request(interrupt=cell))

    def _log_end(self, ended: asyncio.Task[int]) -> None:
        """Log that the process was killed, unless this server ended it."""
        if not ended.cancelled() and ended.result() == _KILLED and self._descriptors.held:
            logger.warning(
                "A Python session was killed: by its own code, or by the system, as where memory"
                " is short"
            )

    def _why(self) -> str:
        if self._reason or not self._ended.done() or self._ended.cancelled():
            return self._reason
        code = self._ended.result()
        if code > 128:
            return _SIGNALS.get(code - 128, f"signal {code - 128} ended it")
        return f"it exited with status {code}"

    async def _send(self, content: bytes) -> None:
        """Write a request. Raises OSError if the process has ended."""
        view = memoryview(content)
        while view:
            if not self._descriptors.open:
                raise BrokenPipeError("the process has ended")
            try:
                view = view[os.write(self._descriptors.requests, view) :]
            except BlockingIOError:
                await self._wait([], [self._descriptors.requests])

    async def _readable(self) -> None:
        """Wait until there is output, or the process has ended."""
        if readable := self._descriptors.readable:
            await self._wait(readable, [])

    async def _wait(self, readable: list[int], writable: list[int]) -> None:
        ready = asyncio.Event()
        self._waiting = True
        for descriptor in readable:
            self._loop.add_reader(descriptor, ready.set)
        for descriptor in writable:
            self._loop.add_writer(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            for descriptor in readable:
                self._loop.remove_reader(descriptor)
            for descriptor in writable:
                self._loop.remove_writer(descriptor)
            self._waiting = False


class _Cell:
    """What is known of a cell that runs."""

    def __init__(self, most: int, deadline: float, folder: str | None) -> None:
        self.id = secrets.token_hex(8)
        self.deadline = deadline
        self.interrupted = False
        self._budget = Budget(most)
        self._folder = folder
        self._streams = {name: Output(folder) for name in _STREAMS}
        self._pending = {name: bytearray() for name in _STREAMS}

    @property
    def has_output(self) -> bool:
        """Whether there is something left for `text`."""
        return any(self._pending.values())

    def add(self, outputs: Mapping[_Stream, bytes]) -> None:
        """Add what was written to stdout and stderr, for `text`."""
        for name, pending in self._pending.items():
            pending += outputs[name]

    def text(self, *, last: bool = False) -> list[CellEvent]:
        """The events of a piece of stdout and stderr. What would not be kept is dropped.

        last: whether nothing follows, so that incomplete characters are written, too.
        """
        events: list[CellEvent] = []
        for name, stream in self._streams.items():
            pending = self._pending[name]
            if self._budget.is_spent:
                pending.clear()
            piece = bytes(pending[:_PIECE])
            del pending[:_PIECE]
            if text := stream.feed(piece, last=last):
                events += self.within(OutputText(name, text))
        return events

    def event(self, frame: bytes) -> CellEvent | None:
        """The event of a frame; None for one of which nothing would be kept."""
        return event_of(parse(frame), self.id) if self._budget.take_frame(frame) else None

    def within(self, event: OutputText | OutputImage | None) -> list[CellEvent]:
        """The event as far as it is within the limit of output."""
        if event is None:
            return []
        if isinstance(event, OutputText) and self._folder and event.stream not in self._streams:
            event = OutputText(event.stream, event.text.replace(self._folder, DATA))
        kept = self._budget.take(event)
        return [] if kept is None else [kept]


class _Descriptors:
    """The server's ends of the pipes to a process."""

    def __init__(self, requests: int, lifeline: int, streams: dict[str, int]) -> None:
        self.requests = requests
        self._lifeline = lifeline
        self._streams = streams
        self._finished: set[str] = set()
        self.open = True

    @classmethod
    def make(cls) -> tuple["_Descriptors", "_Ends"]:
        """Make the pipes. Returns the server's ends and the guard's."""
        request, lifeline, events, stdout, stderr = _pipes(5)
        ours = {"events": events[0], "stdout": stdout[0], "stderr": stderr[0]}
        for descriptor in (request[1], *ours.values()):
            os.set_blocking(descriptor, False)
        theirs = _Ends(request[0], lifeline[0], events[1], stdout[1], stderr[1])
        return cls(request[1], lifeline[1], ours), theirs

    @property
    def readable(self) -> list[int]:
        """The descriptors that may have output; none once the process has ended."""
        if self.ended:
            return []
        return [each for name, each in self._streams.items() if name not in self._finished]

    def read(self) -> tuple[dict[_Stream, bytes], bytes]:
        """What there is: stdout and stderr, and frames."""
        # Frames first: what was written before them is then in the other pipes.
        frames = self._read("events")
        return {name: self._read(name) for name in _STREAMS}, frames

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return not self.open or "events" in self._finished

    @property
    def held(self) -> bool:
        """Whether the guard's input is open, so that the process lives."""
        return self._lifeline >= 0

    def release(self) -> None:
        """Close the guard's input: it ends the process."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def close(self) -> None:
        """Close all. Safe to call twice."""
        self.release()
        if self.open:
            self.open = False
            for descriptor in (self.requests, *self._streams.values()):
                os.close(descriptor)

    def _read(self, name: str) -> bytes:
        parts: list[bytes] = []
        while self.open and name not in self._finished and len(parts) < _PARTS:
            try:
                part = os.read(self._streams[name], _CHUNK)
            except BlockingIOError:
                break
            if not part:
                self._finished.add(name)
            parts.append(part)
        return b"".join(parts)


class _Ends(NamedTuple):
    """The guard's ends of the pipes."""

    requests: int
    lifeline: int
    events: int
    stdout: int
    stderr: int

    def close(self) -> None:
        for descriptor in self:
            os.close(descriptor)


def _pipes(number: int) -> list[tuple[int, int]]:
    """So many pipes, or none. Raises OSError."""
    with ExitStack() as opened:
        pipes = []
        for _ in range(number):
            pipes.append(os.pipe())
            for descriptor in pipes[-1]:
                opened.callback(os.close, descriptor)
        opened.pop_all()
        return pipes


async def _start_guard(process: Process, layers: Layers, ends: _Ends) -> Guard:
    descriptors = {_REQUESTS: ends.requests, _EVENTS: ends.events}
    return await asyncio.create_subprocess_exec(
        *guarded(process, layers, descriptors),
        stdin=ends.lifeline,
        stdout=ends.stdout,
        stderr=ends.stderr,
        pass_fds=tuple(descriptors.values()),
        env={},
        cwd="/",
        start_new_session=True,  # Ctrl-C must not reach it, not even while it starts
    )
