"""A sandbox for tests that confines nothing: a child process for each session, in a folder.

It runs cells as the real one does: state is kept, the last expression is echoed, a traceback ends
the cell, and a cell that takes too long is killed.
"""

import asyncio
import base64
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from server.tools.python.sandbox import (
    CellEnd,
    CellEvent,
    FileTooLarge,
    NoSuchFile,
    NoSuchSession,
    OutputImage,
    OutputText,
    SandboxFile,
    SandboxLimits,
    SandboxUnavailable,
)

WORKER = """
import ast, json, sys, traceback
out = sys.stdout
class Stream:
    def __init__(self, name): self.name = name
    def write(self, text): send(self.name, text); return len(text)
    def flush(self): pass
def send(kind, text): out.write(json.dumps([kind, text]) + "\\n"); out.flush()
def image(data): import base64; send("image", base64.b64encode(data).decode())
names = {"__name__": "__main__", "display_png": image}
sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
for line in sys.stdin:
    try:
        tree = ast.parse(json.loads(line))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
        if value is not None: send("result", repr(value))
        send("end", "completed")
    except Exception:
        send("error", traceback.format_exc())
        send("end", "raised")
"""


@dataclass(slots=True)
class _Session:
    folder: Path
    limits: SandboxLimits
    process: asyncio.subprocess.Process | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class BareSandbox:
    """Implements PythonSandbox. failure: raised by `create`, `resume` and `close` while it is set;
    run_failure: by `run`."""

    layers: Mapping[str, str] = {}

    def __init__(self, root: Path, problem: str | None = None) -> None:
        self.problem = problem
        self.failure: SandboxUnavailable | None = None
        self.run_failure: SandboxUnavailable | None = None
        self.sessions: dict[str, _Session] = {}
        self.closed: list[str] = []
        self._root = root

    async def start(self) -> None:
        self._root.mkdir(exist_ok=True)

    async def stop(self) -> None:
        for session in self.sessions.values():
            await self._kill(session)

    async def create(self, session: str, limits: SandboxLimits) -> None:
        if self.failure is not None:
            raise self.failure
        folder = self._root / session
        folder.mkdir(exist_ok=True, parents=True)
        self.sessions.setdefault(session, _Session(folder, limits))

    async def resume(self, session: str, limits: SandboxLimits) -> None:
        if self.failure is None and not (self._root / session).is_dir():
            raise NoSuchSession(session)
        await self.create(session, limits)

    async def run(
        self,
        session: str,
        code: str,
        timeout: float,  # noqa: ASYNC109 -- as the protocol has it
    ) -> AsyncGenerator[CellEvent, None]:
        if self.run_failure is not None:
            raise self.run_failure
        own = self._session(session)
        async with own.lock:
            process = own.process = own.process or await self._spawn(own)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(code).encode() + b"\n")
            ended = False
            try:
                async with asyncio.timeout(timeout):
                    async for line in process.stdout:
                        kind, text = json.loads(line)
                        if kind == "end":
                            ended = True
                            yield CellEnd(text)
                            break
                        yield _event(kind, text)
                    else:
                        yield CellEnd("died", "it exited")
            except TimeoutError:
                yield CellEnd("timeout")
            finally:
                if not ended:
                    await self._kill(own)

    async def files(self, session: str) -> list[SandboxFile]:
        folder = self._session(session).folder
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        return [_file(path, folder) for path in paths]

    async def read(self, session: str, path: str) -> AsyncIterator[bytes]:
        file = self._session(session).folder / path
        if not file.is_file():
            raise NoSuchFile(path)
        content = file.read_bytes()
        for first in range(0, len(content), 4):
            yield content[first : first + 4]

    async def write(self, session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        own = self._session(session)
        pieces = b"".join([piece async for piece in content])
        if len(pieces) > own.limits.disk:
            raise FileTooLarge(path)
        (own.folder / path).write_bytes(pieces)
        return _file(own.folder / path, own.folder)

    async def delete(self, session: str, path: str) -> None:
        try:
            (self._session(session).folder / path).unlink()
        except FileNotFoundError:
            raise NoSuchFile(path) from None

    async def close(self, session: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.closed.append(session)
        if session in self.sessions:
            own = self.sessions.pop(session)
            await self._kill(own)
            shutil.rmtree(own.folder)

    def _session(self, session: str) -> _Session:
        if session not in self.sessions:
            raise NoSuchSession(session)
        return self.sessions[session]

    async def _spawn(self, session: _Session) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            WORKER,
            cwd=session.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 << 20,
        )

    async def _kill(self, session: _Session) -> None:
        if session.process is not None:
            with contextlib.suppress(ProcessLookupError):
                session.process.kill()
            assert session.process.stdin is not None
            session.process.stdin.close()
            await session.process.wait()
            session.process = None


def _event(kind: str, text: str) -> CellEvent:
    if kind == "image":
        return OutputImage("image/png", base64.b64decode(text))
    return OutputText(kind, text)  # type: ignore[arg-type]


def _file(path: Path, folder: Path) -> SandboxFile:
    stat = path.stat()
    return SandboxFile(path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns)
