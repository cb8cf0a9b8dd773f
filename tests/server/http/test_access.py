"""What is decided before a body is read. With the whole application: the order is its."""

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.app import create_app
from server.http.access import Access
from server.http.request_state import state_of
from server.settings import Settings

ANSWER = "<|channel|>final<|message|>Hello<|return|>"
KEY = {"authorization": "Bearer k"}
ONCE = {"idempotency-key": "once"}
OPTIONS: dict[str, Any] = {"backend": "scripted", "script": "unused", "api_key": ("k",)}

StartEngine = Callable[..., Awaitable[Any]]


class Watched:
    """An application, and whether it took of a body before it began its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.took = False
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def watched_receive() -> Message:
            self.took = self.took or not began
            return await receive()

        async def watched_send(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        await self._app(scope, watched_receive, watched_send)


@asynccontextmanager
async def client(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as connected:
        yield connected


REFUSED = [
    ("POST", "/v1/responses", {}, 401),
    ("POST", "/v1/responses", {"authorization": "Bearer wrong"}, 401),
    ("POST", "/v1/chat/completions", {}, 401),
    ("POST", "/v1/conversations", {}, 401),
    ("POST", "/tokenize", {}, 401),
    ("POST", "/v1/responses/resp_1/cancel", {}, 401),
    ("GET", "/v1/models", {}, 401),
    ("POST", "/unknown", {}, 404),
    ("POST", "/unknown", KEY, 404),
    ("POST", "/v1/unknown", KEY, 404),
    ("PUT", "/v1/responses", KEY, 405),
    ("POST", "/v1/models", KEY, 405),
    ("POST", "/tokenize/", KEY, 307),
    ("POST", "/health", KEY, 405),
]


class Reading(BaseHTTPMiddleware):
    """Somebody's middleware, which reads every body."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        self.read = await request.body()
        return await call_next(request)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
async def test_who_is_refused_is_not_read(
    start_engine: StartEngine,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
    *,
    added: bool,
) -> None:
    app = create_app(Settings(**OPTIONS), await start_engine(ANSWER))
    if added:
        app.add_middleware(Reading)
    watched = Watched(app)
    async with client(watched) as http:
        answer = await http.request(method, path, headers={**headers, **ONCE}, content=b"{}")
    assert answer.status_code == status
    assert not watched.took


async def test_who_may_go_on_is_read(start_engine: StartEngine) -> None:
    watched = Watched(create_app(Settings(**OPTIONS), await start_engine(ANSWER)))
    async with client(watched) as http:
        body = b'{"input": "hi"}'
        answer = await http.post("/v1/responses", headers={**KEY, **ONCE}, content=body)
    assert answer.status_code == 200
    assert watched.took


async def test_keys_are_read_once() -> None:
    """A server may have thousands of them."""
    routes = [Route("/x", lambda _: Response())]
    guard = Middleware(Access, public_endpoints=frozenset(), keys=iter(("k", "other")))
    async with client(Starlette(routes=routes, middleware=[guard])) as http:
        answers = [await http.get("/x", headers=KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_what_no_route_takes_is_not_answered_from_memory(start_engine: StartEngine) -> None:
    async with client(create_app(Settings(**OPTIONS), await start_engine(ANSWER))) as http:
        answers = [await http.post("/unknown", headers={**KEY, **ONCE}) for _ in range(2)]
    assert "idempotent-replayed" not in answers[1].headers


async def test_without_keys_what_no_route_takes_is_not_read_either(
    start_engine: StartEngine,
) -> None:
    settings = Settings(backend="scripted", script="unused")
    watched = Watched(create_app(settings, await start_engine(ANSWER)))
    async with client(watched) as http:
        assert (await http.post("/unknown", content=b"{}")).status_code == 404
    assert not watched.took


async def test_a_websocket_that_no_route_takes_is_a_404(start_engine: StartEngine) -> None:
    app = create_app(Settings(**OPTIONS), await start_engine(ANSWER))
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    extensions: dict[str, Any] = {"websocket.http.response": {}}
    scope = {"type": "websocket", "path": "/unknown", "headers": [], "extensions": extensions}
    await app(scope, receive, send)
    start, text = sent
    assert start["status"] == 404
    assert json.loads(text["body"])["error"]["code"] == "unknown_url"


async def test_who_has_no_body_has_left_when_it_is_asked_again(start_engine: StartEngine) -> None:
    seen: list[Message] = []

    class Receiving:
        """Somebody's middleware, which receives twice."""

        def __init__(self, app: ASGIApp) -> None:
            self._app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            seen.extend([await receive(), await receive()])
            await self._app(scope, receive, send)

    app = create_app(Settings(**OPTIONS), await start_engine(ANSWER))
    app.add_middleware(Receiving)
    async with client(app) as http:
        await http.post("/unknown", content=b"body")
    assert seen == [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_an_added_middleware_reads_within_the_bounds(start_engine: StartEngine) -> None:
    settings = Settings(**OPTIONS, max_body_bytes=1000, max_body_memory=4_000_000)
    app = create_app(settings, await start_engine(ANSWER))
    app.add_middleware(Reading)
    body = b'{"input": "hi"}'
    packed = {**KEY, "content-encoding": "gzip"}
    async with client(app) as http:
        answers = {
            "plain": await http.post("/v1/responses", headers=KEY, content=body),
            "packed": await http.post("/v1/responses", headers=packed, content=gzip.compress(body)),
            "long": await http.post("/v1/responses", headers=KEY, content=b" " * 1001),
            "bomb": await http.post(
                "/v1/responses", headers=packed, content=gzip.compress(b" " * 100_000)
            ),
        }
        app.state.context.body_budget.used = 4_000_000
        answers["full"] = await http.post("/v1/responses", headers=KEY, content=body)
    statuses = {name: answer.status_code for name, answer in answers.items()}
    assert statuses == {"plain": 200, "packed": 200, "long": 413, "bomb": 413, "full": 503}
    assert answers["full"].headers["retry-after"] == "1"
    assert answers["long"].json()["error"]["code"] == "request_too_large"
    assert all(answer.headers["x-request-id"] for answer in answers.values())


class Passing:
    """Somebody's middleware, which passes everything on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def received() -> Message:
            return await receive()

        async def sent(message: Message) -> None:
            await send(message)

        await self._app(dict(scope), received, sent)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("added", [Passing, Reading, GZipMiddleware])
async def test_a_stream_is_whole_behind_an_added_middleware(
    start_engine: StartEngine, added: Any, *, idempotent: bool
) -> None:
    headers = {**KEY, **(ONCE if idempotent else {})}
    bodies = []
    for with_it in (False, True):
        app = create_app(Settings(**OPTIONS), await start_engine(ANSWER))
        if with_it:
            app.add_middleware(added)
        async with client(app) as http:
            request = {"input": "hi", "stream": True}
            for _ in range(2):
                answer = await http.post("/v1/responses", headers=headers, json=request)
                bodies.append([line for line in answer.text.splitlines() if line[:6] == "event:"])
    assert bodies[0][-1] == "event: response.completed"
    assert all(body == bodies[0] for body in bodies)


@pytest.mark.parametrize("added", [False, True])
async def test_only_our_own_middleware_is_passed_by(
    start_engine: StartEngine, *, added: bool
) -> None:
    seen: list[bool] = []
    app = create_app(Settings(**OPTIONS), await start_engine(ANSWER))

    async def look(request: Request) -> Response:
        seen.append(state_of(request.scope).send_body is not None)
        return Response()

    app.add_route("/look", look)
    if added:
        app.add_middleware(Passing)
    async with client(app) as http:
        await http.get("/look", headers=KEY)
    assert seen == [not added]
