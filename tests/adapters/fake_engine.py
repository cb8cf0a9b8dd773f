"""A real HTTP server on a real port that answers as inference servers do, and fails as they do."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

Answer = Callable[["Exchange"], Awaitable[None]]
RECORDED = Path(__file__).parent / "recorded"


class Exchange:
    """One request and what is sent back."""

    def __init__(self, path: str, body: Any, headers: dict[str, str], receive: Any, send: Any):
        self.path = path
        self.body = body
        self.headers = headers
        self._receive = receive
        self._send = send

    async def begin(self, status: int, **headers: str) -> None:
        listed = [
            (name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": listed})

    async def write(self, text: str, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": more})

    async def left(self) -> None:
        """Returns when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class FakeEngine:
    """answers: by path, used once each and in order, the last one again and again.

    asked: every request but health checks. gone: how many clients left before their answer's end.
    """

    def __init__(self, recorded: str) -> None:
        self.recordings = json.loads((RECORDED / recorded).read_text())
        self.answers: dict[str, list[Answer]] = {"/health": [status(200)]}
        self.asked: list[Exchange] = []
        self.gone = asyncio.Queue[None]()
        self.url = ""

    def will(self, path: str, *answers: Answer) -> None:
        self.answers[path] = list(answers)

    def recorded(self, name: str) -> Answer:
        """What a real server answered."""
        recording = self.recordings[name]

        async def answer(exchange: Exchange) -> None:
            await exchange.begin(recording["status"], content_type=recording["type"])
            for part in recording["body"].split("\n\n"):
                await exchange.write(part + "\n\n" if part else "")
            await exchange.write("", more=False)

        return answer

    def lines(self, name: str) -> list[str]:
        return [f"{line}\n\n" for line in self.recordings[name]["body"].split("\n\n") if line]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"]
        exchange = Exchange(path, json.loads(body) if body else None, headers, receive, send)
        if path != "/health":
            self.asked.append(exchange)
        answers = self.answers.get(path, [status(404)])
        answer = answers[0] if len(answers) == 1 else answers.pop(0)
        await answer(exchange)

    def bodies(self, path: str) -> list[Any]:
        return [exchange.body for exchange in self.asked if exchange.path == path]

    def hangs(self, *parts: str) -> Answer:
        """Sends some parts, then nothing until the client leaves."""

        async def answer(exchange: Exchange) -> None:
            await exchange.begin(200, content_type="text/event-stream")
            for part in parts:
                await exchange.write(part)
            await exchange.left()
            self.gone.put_nowait(None)

        return answer


def sends(*parts: str) -> Answer:
    """An event stream of these parts, ended properly."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin(200, content_type="text/event-stream")
        for part in parts:
            await exchange.write(part)
        await exchange.write("", more=False)

    return answer


def breaks_off(*parts: str) -> Answer:
    """An event stream of these parts, then the connection is closed in the middle."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin(200, content_type="text/event-stream", content_length="100000")
        for part in parts:
            await exchange.write(part)

    return answer


def status(code: int, body: str = "", **headers: str) -> Answer:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin(code, **headers)
        await exchange.write(body, more=False)

    return answer


@asynccontextmanager
async def running(engine: FakeEngine) -> AsyncIterator[FakeEngine]:
    """Serve until the block ends; what is in flight then is dropped."""
    listener = socket.create_server(("127.0.0.1", 0))
    engine.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        engine, log_config=None, lifespan="off", timeout_graceful_shutdown=1, ws="none"
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield engine
    finally:
        server.should_exit = server.force_exit = True
        server.ended.set()
        await serving


class Server(uvicorn.Server):
    """Leaves the process's signals alone, and ends when `ended` is set instead of at a tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # makes the headers
        await self.ended.wait()

    def capture_signals(self) -> Any:
        return NoSignals()


class NoSignals:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
