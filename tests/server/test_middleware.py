import logging
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import APIError
from server.middleware import BodyLimit, RequestId
from server.respond import json_response
from server.sse import SEND_BODY

LIMIT = 10
REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")


async def echo(request: Request) -> Response:
    body = await request.body()
    return json_response({"id": request.state.request_id, "size": len(body)})


async def ignore_body(_: Request) -> Response:
    return Response("fine")


async def crash(_: Request) -> Response:
    raise ValueError("a bug")


async def crash_half_way(_: Request) -> Response:
    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        raise ValueError("a bug")

    return StreamingResponse(body())


async def refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, APIError)
    return json_response(error.body(), error.status)


def application() -> Starlette:
    return Starlette(
        routes=[
            Route("/echo", echo, methods=["POST"]),
            Route("/ignore", ignore_body, methods=["POST"]),
            Route("/crash", crash),
            Route("/half", crash_half_way),
        ],
        middleware=[Middleware(RequestId), Middleware(BodyLimit, limit=LIMIT)],
        exception_handlers={APIError: refuse},
    )


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application())
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def test_what_a_request_leaves_does_not_hold_its_connection() -> None:
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    found: list[Send] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        found.append(scope["state"][SEND_BODY])
        await Response()(scope, _, send)

    async def send(_: Message) -> None: ...

    async def receive() -> Message:
        raise AssertionError

    await RequestId(app)(scope, receive, send)
    assert found == [send]
    assert SEND_BODY not in scope["state"]


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_the_answers_id_is_the_requests(client: httpx.AsyncClient) -> None:
    first, second = [await client.post("/echo") for _ in range(2)]
    assert REQUEST_ID.fullmatch(first.headers["x-request-id"])
    assert first.json()["id"] == first.headers["x-request-id"]
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_every_answer_has_an_id(client: httpx.AsyncClient) -> None:
    answers = [await client.get("/unknown"), await client.get("/echo"), await client.get("/crash")]
    assert [answer.status_code for answer in answers] == [404, 405, 500]
    assert all(REQUEST_ID.fullmatch(answer.headers["x-request-id"]) for answer in answers)


async def test_a_crash_is_a_500_that_tells_nothing_of_it(
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
    caplog.set_level(logging.INFO, "server.middleware")
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

    caplog.set_level(logging.INFO, "server.middleware")
    await call(RequestId(silent), {"type": "http", "method": "GET", "path": "/"})
    (record,) = caplog.records
    assert record.getMessage().startswith("GET / unanswered ")


@pytest.mark.parametrize("size", [0, LIMIT])
async def test_a_body_up_to_the_limit_is_read(client: httpx.AsyncClient, size: int) -> None:
    assert (await client.post("/echo", content=b"x" * size)).json()["size"] == size


async def test_a_body_over_the_limit_is_refused_unread(client: httpx.AsyncClient) -> None:
    answer = await client.post("/echo", content=b"x" * (LIMIT + 1))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"
    assert REQUEST_ID.fullmatch(answer.headers["x-request-id"])


async def test_a_body_of_unknown_size_is_read_up_to_the_limit(client: httpx.AsyncClient) -> None:
    fits = await client.post("/echo", content=in_pieces(b"x" * LIMIT))
    over = await client.post("/echo", content=in_pieces(b"x" * LIMIT, b"x", b"x" * LIMIT))
    assert (fits.status_code, over.status_code) == (200, 413)


async def test_a_body_that_nobody_reads_may_have_any_size(client: httpx.AsyncClient) -> None:
    answer = await client.post("/ignore", content=b"x" * (LIMIT + 1))
    assert answer.status_code == 200


async def test_a_declared_size_that_is_no_number_is_counted() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    headers = [(b"content-length", b"many")]
    with pytest.raises(APIError):
        await call(BodyLimit(read, LIMIT), {"type": "http", "headers": headers}, b"x" * (LIMIT + 1))


@pytest.mark.parametrize("middleware", [RequestId, lambda app: BodyLimit(app, 0)])
async def test_what_is_no_http_request_passes_through(middleware: type[RequestId]) -> None:
    seen: list[tuple[Scope, Message]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope, await receive()))

    await call(middleware(app), {"type": "lifespan"}, b"over the limit")
    assert seen == [({"type": "lifespan"}, {"type": "http.request", "body": b"over the limit"})]


async def call(app: ASGIApp, scope: Scope, body: bytes = b"") -> None:
    """Call an ASGI app that sends nothing."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await app(scope, receive, send)
