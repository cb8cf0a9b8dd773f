"""The sandbox `http`: its client and its service, over a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import asdict
from typing import Any

import httpx
import pytest
import uvicorn

from server.tools.python import remote as remote_module
from server.tools.python import service as service_module
from server.tools.python.remote import RemoteSandbox
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
from server.tools.python.service import create_service
from server.tools.python.wire import decode_error, decode_event, decode_limits, encode_event
from tests.server.tools.python.cells import content
from tests.waiting import settle

LIMITS = SandboxLimits(memory=1 << 20)


class FakeSandbox:
    """A sandbox whose cells are scripted by their code."""

    problem: str | None = None

    def __init__(self) -> None:
        self.layers = {"landlock": "on"}
        self.sessions: dict[str, SandboxLimits] = {}
        self.stored: dict[str, bytes] = {}
        self.began, self.ended, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def create(self, session: str, limits: SandboxLimits) -> None:
        self.sessions[session] = limits

    async def resume(self, session: str, limits: SandboxLimits) -> None:
        if session not in self.sessions:
            raise NoSuchSession(session)
        self.sessions[session] = limits

    async def run(
        self,
        session: str,
        code: str,
        timeout: float,  # noqa: ASYNC109 - the interface's
    ) -> AsyncGenerator[CellEvent, None]:
        if session not in self.sessions:
            raise NoSuchSession(session)
        try:
            if code == "no descriptors":
                raise OSError(24, "Too many open files")
            if code == "silent":
                self.began.set()
                await self.go_on.wait()
            yield OutputText("stdout", code)
            if code == "no descriptors later":
                raise OSError(24, "Too many open files")
            if code == "wait":
                await asyncio.Event().wait()
            if code == "slow":
                await self.go_on.wait()
            yield OutputImage("image/png", b"\0\1")
            yield CellEnd("timeout", f"after {timeout:g}")
        finally:
            self.ended.set()

    async def files(self, session: str) -> list[SandboxFile]:
        return [SandboxFile(path, len(data), 7) for path, data in self.stored.items()]

    async def read(self, session: str, path: str) -> AsyncIterator[bytes]:
        if path not in self.stored:
            raise NoSuchFile(path)
        for at in range(0, len(self.stored[path]), 3):
            yield self.stored[path][at : at + 3]

    async def write(self, session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        data = b"".join([chunk async for chunk in content])
        if len(data) > 100:
            raise FileTooLarge(path)
        self.stored[path] = data
        return SandboxFile(path, len(data), 7)

    async def delete(self, session: str, path: str) -> None:
        if path not in self.stored:
            raise NoSuchFile(path)
        del self.stored[path]

    async def close(self, session: str) -> None:
        self.sessions.pop(session, None)


@contextlib.asynccontextmanager
async def served(sandbox: Any, key: str | None = "key") -> AsyncGenerator[str, None]:
    config = uvicorn.Config(
        create_service(sandbox, key), port=0, log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await task


@pytest.fixture
def inner() -> FakeSandbox:
    return FakeSandbox()


@pytest.fixture
async def remote(inner: FakeSandbox) -> AsyncIterator[RemoteSandbox]:
    async with served(inner) as url:
        remote = RemoteSandbox(url, "key")
        await remote.start()
        yield remote
        await remote.stop()


async def test_the_state_of_the_service_is_known(remote: RemoteSandbox) -> None:
    assert (remote.problem, remote.layers) == (None, {"landlock": "on"})


async def test_cells_stream_their_events(remote: RemoteSandbox, inner: FakeSandbox) -> None:
    await remote.create("a", LIMITS)
    assert inner.sessions == {"a": LIMITS}
    assert [event async for event in remote.run("a", "é", 1.5)] == [
        OutputText("stdout", "é"),
        OutputImage("image/png", b"\0\1"),
        CellEnd("timeout", "after 1.5"),
    ]
    await remote.close("a")
    assert inner.sessions == {}


async def test_a_session_that_the_service_has_is_found(
    remote: RemoteSandbox, inner: FakeSandbox
) -> None:
    with pytest.raises(NoSuchSession):
        await remote.resume("a", LIMITS)
    assert inner.sessions == {}
    await remote.create("a", SandboxLimits())
    await remote.resume("a", LIMITS)
    assert inner.sessions == {"a": LIMITS}


async def test_leaving_ends_the_cell(remote: RemoteSandbox, inner: FakeSandbox) -> None:
    await remote.create("a", LIMITS)
    events = remote.run("a", "wait", 60)
    assert await anext(events) == OutputText("stdout", "wait")
    assert not inner.ended.is_set()
    await events.aclose()
    await asyncio.wait_for(inner.ended.wait(), 10)


async def test_leaving_ends_a_cell_that_has_no_output_yet(
    remote: RemoteSandbox, inner: FakeSandbox
) -> None:
    await remote.create("a", LIMITS)
    waiting = asyncio.ensure_future(anext(remote.run("a", "silent", 60)))
    await inner.began.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(inner.ended.wait(), 10)


async def test_leaving_a_cell_leaves_no_task(inner: FakeSandbox) -> None:
    await inner.create("a", LIMITS)
    before = asyncio.all_tasks()
    lines = service_module._lines(inner.run("a", "wait", 60))
    assert decode_event((await anext(lines)).decode()) == OutputText("stdout", "wait")
    waiting = asyncio.ensure_future(anext(lines))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await inner.ended.wait()
    await settle()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("code", ["slow", "silent"])
async def test_a_silent_cell_keeps_its_connection(
    inner: FakeSandbox, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(service_module, "ALIVE_SECONDS", 0.02)
    await inner.create("a", LIMITS)
    body = {"code": code, "timeout": 60}
    async with (
        served(inner, None) as url,
        httpx.AsyncClient() as client,
        client.stream("POST", f"{url}/sessions/a/cells", json=body) as response,
    ):
        lines = []
        async for line in response.aiter_lines():
            lines.append(line)
            if not line:
                inner.go_on.set()
    assert decode_event(next(filter(None, lines))) == OutputText("stdout", code)
    assert "" in lines
    assert decode_event(lines[-1]) == CellEnd("timeout", "after 60")


async def test_a_client_reads_over_the_silence_of_a_cell() -> None:
    content = b"\n\n" + encode_event(OutputText("stdout", "1")) + b"\n"
    content += encode_event(CellEnd("completed"))
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=content))
    remote = RemoteSandbox("http://sandbox", None, transport=transport)
    events = [event async for event in remote.run("a", "1", 1)]
    assert events == [OutputText("stdout", "1"), CellEnd("completed")]
    await remote.stop()


async def test_files_go_both_ways(remote: RemoteSandbox) -> None:
    file = await remote.write("a", "ä/b c?.txt", content(b"12", b"345"))
    assert file == SandboxFile("ä/b c?.txt", 5, 7)
    assert await remote.files("a") == [file]
    assert b"".join([chunk async for chunk in remote.read("a", "ä/b c?.txt")]) == b"12345"
    await remote.write("a", "empty", content())
    assert b"".join([chunk async for chunk in remote.read("a", "empty")]) == b""
    await remote.delete("a", "empty")


async def test_errors_keep_their_kind(remote: RemoteSandbox) -> None:
    with pytest.raises(NoSuchSession, match="nobody"):
        await anext(remote.run("nobody", "1", 1))
    with pytest.raises(NoSuchFile):
        await anext(aiter(remote.read("a", "missing")))
    with pytest.raises(NoSuchFile):
        await remote.delete("a", "missing")
    with pytest.raises(FileTooLarge):
        await remote.write("a", "x", content(bytes(101)))


async def test_a_defect_of_the_sandbox_is_answered(
    remote: RemoteSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    await remote.create("a", LIMITS)
    with pytest.raises(SandboxUnavailable, match="the cell failed: OSError"):
        await anext(remote.run("a", "no descriptors", 60))
    assert "a cell failed: OSError" in caplog.messages


async def test_a_defect_of_the_sandbox_ends_a_cell_that_runs(remote: RemoteSandbox) -> None:
    await remote.create("a", LIMITS)
    async with asyncio.timeout(10):
        events = [event async for event in remote.run("a", "no descriptors later", 60)]
    assert events[-1] == CellEnd("died", "the sandbox failed: the cell failed: OSError")


async def test_a_wrong_key_is_a_problem(inner: FakeSandbox) -> None:
    async with served(inner) as url:
        for key in ("wrong", None):
            remote = RemoteSandbox(url, key)
            await remote.start()
            assert "--python-sandbox-key" in (remote.problem or "")
            await remote.stop()
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{url}/health")).json() == {"status": "ok"}
            assert (await client.get(f"{url}/status")).status_code == 401


@pytest.mark.parametrize("key", ["schlüssel", "clé à", "ключ", "\udcff"])
async def test_a_key_may_have_any_characters(inner: FakeSandbox, key: str) -> None:
    async with served(inner, key) as url:
        remote = RemoteSandbox(url, key)
        await remote.start()
        assert remote.problem is None
        await remote.stop()


async def test_without_a_key_none_is_needed(inner: FakeSandbox) -> None:
    async with served(inner, None) as url:
        remote = RemoteSandbox(url, None)
        await remote.start()
        assert remote.problem is None
        await remote.stop()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/sessions/a", b"["),
        ("PUT", "/sessions/a", b'{"memory": "1"}'),
        ("PUT", "/sessions/a", b'{"other": 1}'),
        ("PUT", "/sessions/a", b"[]"),
        ("PUT", "/sessions/a", b'{"memory": true}'),
        ("PUT", "/sessions/a", b"[" * 100_000),
        ("PUT", "/sessions/a", b"\xff"),
        ("PUT", "/sessions/a.b", b"{}"),
        ("POST", "/sessions/a", b"[]"),
        ("POST", "/sessions/a.b", b"{}"),
        ("POST", "/sessions/a/cells", b"{}"),
        ("POST", "/sessions/a/cells", b"[]"),
        ("POST", "/sessions/a/cells", b'{"code": 1, "timeout": 1}'),
        ("POST", "/sessions/a/cells", b'{"code": "1", "timeout": "1"}'),
        ("POST", "/sessions/a/cells", b'{"code": "1", "timeout": -1}'),
        ("POST", "/sessions/a/cells", b'{"code": "1", "timeout": NaN}'),
        ("POST", "/sessions/a/cells", b'{"code": "1", "timeout": Infinity}'),
    ],
)
async def test_bad_bodies_are_refused(
    inner: FakeSandbox, method: str, path: str, body: bytes
) -> None:
    async with served(inner, None) as url, httpx.AsyncClient() as client:
        response = await client.request(method, url + path, content=body)
        assert response.status_code == 400


@pytest.mark.parametrize("error", [TypeError("a"), ValueError("b"), KeyError("c")])
async def test_a_defect_is_an_error_of_the_service_and_logged(
    inner: FakeSandbox, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def fail(session: str) -> list[SandboxFile]:
        raise error

    inner.files = fail  # type: ignore[method-assign]
    async with served(inner, None) as url, httpx.AsyncClient() as client:
        response = await client.get(f"{url}/sessions/a/files")
    assert response.status_code == 500
    assert response.json() == {"error": "Failed", "message": type(error).__name__}
    (record,) = [record for record in caplog.records if record.name == service_module.__name__]
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_a_body_is_not_copied_for_each_chunk() -> None:
    """It would take a time that grows with the square of its size."""
    bodies: list[object] = []

    class Chunk(bytes):
        def __radd__(self, body: object) -> Any:
            bodies.append(body)
            return NotImplemented

    class Chunks:
        async def stream(self) -> AsyncIterator[bytes]:
            for _ in range(9):
                yield Chunk(b"x")

    request: Any = Chunks()
    body = await service_module._body(request)
    assert body == b"x" * 9
    assert all(each is body for each in bodies)


async def test_a_large_body_is_refused(inner: FakeSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MOST_BODY", 10)
    async with served(inner, None) as url, httpx.AsyncClient() as client:
        response = await client.post(f"{url}/sessions/a/cells", content=bytes(11))
        assert response.status_code == 413


async def test_a_service_that_starts_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "_RETRY_SECONDS", 0.01)
    asked = asyncio.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        if not asked.is_set():
            asked.set()
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"problem": None, "layers": {}})

    remote = RemoteSandbox("http://sandbox", None, transport=httpx.MockTransport(answer))
    await remote.start()
    assert remote.problem == "the sandbox cannot be reached: ConnectError"
    assert remote._retrying is not None
    await remote._retrying
    assert remote.problem is None
    await remote.stop()
    assert remote.problem == "it has been stopped"


FOREIGN = [b"<html>", b"[" * 100_000, b"null", b"{}", b"[1]", b'{"problem": 1, "layers": {}}']


@pytest.mark.parametrize("body", FOREIGN)
async def test_an_answer_that_is_not_the_services_is_a_problem(body: bytes) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    remote = RemoteSandbox("http://sandbox", None, transport=transport)
    await remote.start()
    assert "answer is not valid" in (remote.problem or "")
    with pytest.raises(SandboxUnavailable):
        await remote.files("a")
    with pytest.raises(SandboxUnavailable):
        await remote.write("a", "x", content(b"1"))
    await remote.stop()


async def test_a_service_that_answers_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "_RETRY_SECONDS", 0.01)
    answers = iter([b"<html>", b"<html>", b'{"problem": null, "layers": {}}'])
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=next(answers)))
    remote = RemoteSandbox("http://sandbox", None, transport=transport)
    await remote.start()
    assert remote._retrying is not None
    await remote._retrying
    assert remote.problem is None
    await remote.stop()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"type": "text", "stream": "stdout", "text": "x"}\n', "ended its answer too early"),
        (b"not JSON\n", "the sandbox failed"),
        (b'{"type": "other"}\n', "the sandbox failed"),
        (b"[" * 100_000 + b"\n", "the sandbox failed"),
    ],
)
async def test_a_broken_answer_ends_the_cell(body: bytes, reason: str) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    remote = RemoteSandbox("http://sandbox", None, transport=transport)
    events = [event async for event in remote.run("a", "1", 1)]
    assert isinstance(events[-1], CellEnd)
    assert events[-1].outcome == "died"
    assert reason in events[-1].reason
    await remote.stop()


async def test_a_broken_file_is_an_error() -> None:
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"x"
            raise httpx.ReadError("broken")

    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Broken()))
    remote = RemoteSandbox("http://sandbox", None, transport=transport)
    with pytest.raises(SandboxUnavailable):
        [chunk async for chunk in remote.read("a", "x")]
    with pytest.raises(SandboxUnavailable):
        await remote.files("a")
    await remote.stop()


def test_other_errors_mean_that_the_sandbox_is_unavailable() -> None:
    assert isinstance(decode_error(None, 502), SandboxUnavailable)
    assert str(decode_error({"error": "NoSuchFile", "message": "x"}, 404)) == "x"


def test_limits_are_checked() -> None:
    assert decode_limits(asdict(LIMITS)) == LIMITS
    with pytest.raises(ValueError, match="positive"):
        decode_limits({"memory": 0})
    with pytest.raises(ValueError, match="unknown event"):
        decode_event('{"type": "end", "outcome": "other", "reason": ""}')
