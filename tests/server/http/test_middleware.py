import logging
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import BodyTooLarge
from server.http.answers.answer import json_response
from server.http.middleware import RequestId
from server.http.request_state import state_of

REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")


async def echo(request: Request) -> Response:
    body = await request.body()
    return json_response({"id": state_of(request.scope).request_id, "size": len(body)})


async def crash(_: Request) -> Response:
    raise ValueError("a bug")


async def crash_half_way(_: Request) -> Response:
    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        raise ValueError("a bug")

    return StreamingResponse(body())


class Refusing:
    """Raises an error of the API for a request that asks for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "refuse" in Headers(scope=scope):
            raise BodyTooLarge("no")
        await self._app(scope, receive, send)


def application() -> Starlette:
    return Starlette(
        routes=[
            Route("/echo", echo, methods=["POST"]),
            Route("/crash", crash),
            Route("/half", crash_half_way),
        ],
        middleware=[Middleware(RequestId), Middleware(Refusing)],
    )


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def test_without_the_direct_way_all_is_sent_through_what_is_inside() -> None:
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    found: list[Send | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(state_of(scope).send_body)
        await Response()(scope, receive, send)

    async def send(_: Message) -> None: ...

    async def receive() -> Message:
        raise AssertionError

    await RequestId(app, direct=False)(scope, receive, send)
    assert found == [None]


async def test_what_a_request_leaves_does_not_hold_its_connection() -> None:
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    found: list[Send | None] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        found.append(state_of(scope).send_body)
        await Response()(scope, _, send)

    async def send(_: Message) -> None: ...

    async def receive() -> Message:
        raise AssertionError

    await RequestId(app)(scope, receive, send)
    assert found == [send]
    assert state_of(scope).send_body is None


async def test_the_answers_id_is_the_requests(client: httpx.AsyncClient) -> None:
    first, second = [await client.post("/echo") for _ in range(2)]
    assert REQUEST_ID.fullmatch(first.headers["x-request-id"])
    assert first.json()["id"] == first.headers["x-request-id"]
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_every_answer_has_an_id(client: httpx.AsyncClient) -> None:
    answers = [await client.get("/unknown"), await client.get("/echo"), await client.get("/crash")]
    assert [answer.status_code for answer in answers] == [404, 405, 500]
    assert all(REQUEST_ID.fullmatch(answer.headers["x-request-id"]) for answer in answers)


async def test_a_crash_is_a_500_without_its_details(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await client.get("/crash")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "a bug" not in answer.text
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert answer.headers["x-request-id"] in record.getMessage()
    assert record.exc_info is not None


async def test_a_crash_after_the_first_byte_is_left_to_the_asgi_server(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="a bug"):
        await client.get("/half")
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == []


async def test_each_request_is_one_line_without_its_query(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.http.middleware")
    answer = await client.get("/un%0Aknown?key=hunter2")
    (record,) = caplog.records
    assert re.fullmatch(
        rf"GET /un%0Aknown 404 \d+\.\d{{3}}s {answer.headers['x-request-id']}",
        record.getMessage(),
    )


async def test_a_request_that_ends_without_an_answer_is_logged_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer nothing."""

    caplog.set_level(logging.INFO, "server.http.middleware")
    await call(RequestId(silent), {"type": "http", "method": "GET", "path": "/"})
    (record,) = caplog.records
    assert record.getMessage().startswith("GET / unanswered ")


@pytest.mark.parametrize(("status", "lines"), [(200, 0), (304, 0), (400, 1), (503, 1)])
async def test_a_request_that_is_not_worth_a_line_has_one_where_it_fails(
    status: int, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def polled(scope: Scope, receive: Receive, send: Send) -> None:
        state_of(scope).unlogged = True
        await Response(status_code=status)(scope, receive, send)

    async def send(_: Message) -> None: ...

    caplog.set_level(logging.INFO, "server.http.middleware")
    await RequestId(polled)({"type": "http", "method": "GET", "path": "/"}, unused, send)
    assert len(caplog.records) == lines


async def test_a_handshake_that_is_refused_has_an_id_and_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/un\nknown", "headers": []}
    caplog.set_level(logging.INFO, "server.http.middleware")
    await RequestId(Response("no", 401))(scope, unused, send)
    request_id = Headers(raw=sent[0]["headers"])["x-request-id"]
    assert REQUEST_ID.fullmatch(request_id)
    (record,) = caplog.records
    assert re.fullmatch(rf"WS /un%0Aknown 401 \d+\.\d{{3}}s {request_id}", record.getMessage())


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (200, ""),
        (401, " from 192.0.2.1"),
        (404, ""),
        (421, " from 192.0.2.1"),
        (429, " from 192.0.2.1"),
        (503, " from 192.0.2.1"),
    ],
)
async def test_a_line_names_the_client_where_it_may_have_asked_too_much(
    status: int, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def send(_: Message) -> None: ...

    scope = {"type": "http", "method": "GET", "path": "/", "client": ("192.0.2.1", 5)}
    caplog.set_level(logging.INFO, "server.http.middleware")
    await RequestId(Response("", status))(scope, unused, send)
    (record,) = caplog.records
    assert re.search(r"req_[0-9a-f]{32}(.*)", record.getMessage())[1] == end  # type: ignore[index]


async def test_an_error_that_nobody_answered_is_answered(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that a middleware raises, outside of what answers the application's errors."""
    answer = await client.get("/health", headers={"refuse": "me"})
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "no"
    assert REQUEST_ID.fullmatch(answer.headers["x-request-id"])
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == []


async def test_what_is_no_http_request_passes_through() -> None:
    seen: list[tuple[Scope, Message]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope, await receive()))

    await call(RequestId(app), {"type": "lifespan"}, b"body")
    assert seen == [({"type": "lifespan"}, {"type": "http.request", "body": b"body"})]


async def call(app: ASGIApp, scope: Scope, body: bytes = b"") -> None:
    """Call an ASGI app that sends nothing."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await app(scope, receive, send)


async def unused() -> Message:
    raise AssertionError
