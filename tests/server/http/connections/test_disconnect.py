"""Clients that go away, mostly over a real socket: what they had asked for is ended."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Message

from server.app import create_app
from server.context import Context
from server.http.connections.config import Config
from server.http.connections.disconnect import until_disconnect
from server.settings import Settings
from tests.waiting import until

SLOW = {
    "completion": "<|channel|>final<|message|>One two<|return|>",
    "tokens_per_chunk": 4,
    "delay_ms": 600_000,
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"model": "m", "input": "Hi"},
}

StartEngine = Callable[..., Awaitable[Any]]


class Server:
    def __init__(self, engine: Any, port: int, context: Context) -> None:
        self.engine = engine
        self._port = port
        self._admission = context.gateway.admission

    async def post(self, path: str, **options: Any) -> "Client":
        """A client that has sent its whole request."""
        body = json.dumps({**BODIES[path], **options}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self.send(head.encode() + body)

    async def send(self, data: bytes) -> "Client":
        """A client that has sent these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(data)
        return Client(reader, writer)

    async def until(self, *, admitted: int, sampling: int) -> None:
        """Return when so many requests are admitted, and so many of them sample."""
        await until(lambda: (self._admission.admitted, self.engine.open) == (admitted, sampling))


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_event(self) -> None:
        await self._reader.readuntil(b"data: ")

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def serving(engine: Any, **options: Any) -> AsyncIterator[Server]:
    settings = Settings(backend="scripted", script="unused", served_model_name=("m",), **options)
    app = create_app(settings, engine)
    server = uvicorn.Server(Config(app, settings.limits, port=0, log_config=None))
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Server(engine, port, app.state.context)
    server.should_exit = True
    await running


@pytest.mark.parametrize("path", BODIES)
async def test_leaving_a_stream_frees_its_slot(start_engine: StartEngine, path: str) -> None:
    async with serving(await start_engine(SLOW)) as server:
        client = await server.post(path, stream=True)
        await client.read_event()
        await server.until(admitted=1, sampling=1)
        await client.leave()
        await server.until(admitted=0, sampling=0)


@pytest.mark.parametrize("path", BODIES)
async def test_leaving_a_whole_answer_frees_its_slot(start_engine: StartEngine, path: str) -> None:
    async with serving(await start_engine(SLOW)) as server:
        client = await server.post(path)
        await server.until(admitted=1, sampling=1)
        await client.leave()
        await server.until(admitted=0, sampling=0)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", BODIES)
async def test_leaving_the_queue_frees_the_place(
    start_engine: StartEngine, path: str, stream: bool
) -> None:
    async with serving(await start_engine(SLOW), max_running=1) as server:
        first = await server.post(path, stream=stream)
        await server.until(admitted=1, sampling=1)
        second = await server.post(path, stream=stream)
        await server.until(admitted=2, sampling=1)
        await second.leave()
        await server.until(admitted=1, sampling=1)
        await first.leave()
        await server.until(admitted=0, sampling=0)


async def test_who_waits_gets_the_slot_of_one_who_left(start_engine: StartEngine) -> None:
    async with serving(await start_engine(SLOW), max_running=1) as server:
        first = await server.post("/v1/responses", stream=True)
        await server.until(admitted=1, sampling=1)
        second = await server.post("/v1/responses", stream=True)
        await server.until(admitted=2, sampling=1)
        await first.leave()
        await server.until(admitted=1, sampling=1)
        assert len(server.engine.requests) == 2
        await second.leave()
        await server.until(admitted=0, sampling=0)


async def test_leaving_right_after_asking_frees_the_slot(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.http.middleware")
    async with serving(await start_engine(SLOW)) as server:
        for stream in (True, False):
            client = await server.post("/v1/chat/completions", stream=stream)
            await client.leave()
        await until(lambda: len(caplog.records) == 2)
        await server.until(admitted=0, sampling=0)


async def test_leaving_in_the_middle_of_a_request_is_no_error(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.http.middleware")
    async with serving(await start_engine(SLOW)) as server:
        client = await server.send(
            b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        )
        await client.leave()
        await until(lambda: "/v1/responses 499" in caplog.text)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def stays() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def leaves() -> Message:
    return {"type": "http.disconnect"}


async def test_work_ends_with_its_result_or_its_error() -> None:
    async def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    assert await until_disconnect(work(None), stays)
    with pytest.raises(ValueError, match="broken"):
        await until_disconnect(work(ValueError("broken")), stays)


async def test_work_is_cancelled_when_the_client_leaves() -> None:
    ended = []

    async def work(error: Exception | None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(error)
            if error is not None:
                raise error

    assert not await until_disconnect(work(None), leaves)
    with pytest.raises(ValueError, match="broken"):
        await until_disconnect(work(error := ValueError("broken")), leaves)
    assert ended == [None, error]


async def test_work_that_cancels_itself_is_not_one_whose_client_left() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await until_disconnect(work(), stays)
