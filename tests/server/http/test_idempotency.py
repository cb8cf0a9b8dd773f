"""Retries with an `Idempotency-Key`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ServerFailed
from server.http.bodies.budget import Budget, Lease
from server.http.idempotency import MAX_KEY, OVERHEAD, Idempotency
from server.http.request_state import state_of
from server.threads import LARGE
from tests.waiting import settle


class Owner:
    """Says whose request it is: the `Authorization` header's, or nobody's where that is empty."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        owner = Headers(scope=scope).get("authorization", "anyone") if "headers" in scope else ""
        if owner:
            state_of(scope).owner = owner
        await self._app(scope, receive, send)


class Counting:
    """An application that says how often it was asked; `go` lets it finish its streams."""

    def __init__(self, capacity: int = 100 * OVERHEAD) -> None:
        self.calls = 0
        self.status = 200
        self.error: Exception | None = None
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        routes = [
            Route("/count", self._count, methods=["POST", "GET"]),
            Route("/other", self._count, methods=["POST"]),
            Route("/stream", self._stream, methods=["POST"]),
            Route("/fail", self._fail, methods=["POST"]),
            Route("/crash", self._crash, methods=["POST"]),
        ]
        middleware = [Middleware(Owner), Middleware(Idempotency, capacity)]
        self.app = Starlette(routes=routes, middleware=middleware)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://test")

    async def post(
        self, key: str | None = "k", body: bytes = b"{}", path: str = "/count", **headers: str
    ) -> httpx.Response:
        if key is not None:
            headers["idempotency-key"] = key
        return await self.client.post(path, content=body, headers=headers)

    async def _count(self, request: Request) -> Response:
        self.calls += 1
        body = (await request.body()).decode()
        return JSONResponse({"calls": self.calls, "body": body}, self.status)

    async def _stream(self, _: Request) -> Response:
        self.calls += 1

        async def body() -> AsyncIterator[bytes]:
            yield b"a"
            self.started.set()
            await self.go.wait()
            if self.error is not None:
                raise self.error
            yield b"b"

        return StreamingResponse(body())

    async def _fail(self, request: Request) -> Response:
        """A stream whose run ends with an error."""
        self.calls += 1
        run: Any = SimpleNamespace(error=self.error)
        state_of(request.scope).run = run
        return StreamingResponse(iter([b"a"]))

    async def _crash(self, _: Request) -> Response:
        self.calls += 1
        raise ValueError("a bug")


async def test_a_retry_gets_the_first_answer() -> None:
    server = Counting()
    first, second = [await server.post(body=b"[1]") for _ in range(2)]
    assert server.calls == 1
    assert first.content == second.content == b'{"calls":1,"body":"[1]"}'
    assert first.headers["content-type"] == second.headers["content-type"]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"


async def test_without_a_key_every_request_is_answered_anew() -> None:
    server = Counting()
    for key in (None, None, "", ""):
        assert (await server.post(key=key)).status_code == 200
    for _ in range(2):
        await server.client.get("/count", headers={"idempotency-key": "k"})
    assert server.calls == 6


async def test_another_key_or_address_or_owner_is_another_request() -> None:
    server = Counting()
    await server.post()
    await server.post(key="l")
    await server.post(path="/other")
    await server.post(path="/count?return_token_bytes=true")
    await server.post(authorization="Bearer a")
    assert server.calls == 5


async def test_a_key_with_another_body_is_refused() -> None:
    server = Counting()
    await server.post(body=b"1")
    answer = await server.post(body=b"2")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "idempotency_key_reused"
    assert server.calls == 1


@pytest.mark.parametrize(
    ("status", "calls"), [(400, 1), (404, 1), (401, 2), (429, 2), (500, 2), (503, 2)]
)
async def test_an_answer_that_a_retry_may_improve_is_not_stored(status: int, calls: int) -> None:
    server = Counting()
    server.status = status
    answers = [await server.post() for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, status]
    assert server.calls == calls


async def test_a_crash_is_not_stored() -> None:
    server = Counting()
    for _ in range(2):
        assert (await server.post(path="/crash")).status_code == 500
    assert server.calls == 2


async def test_a_retry_follows_an_answer_that_is_still_made() -> None:
    server = Counting()
    both = asyncio.gather(server.post(path="/stream"), server.post(path="/stream"))
    await server.started.wait()
    server.go.set()
    assert [answer.text for answer in await both] == ["ab", "ab"]
    assert server.calls == 1


@pytest.mark.parametrize(("error", "calls"), [(None, 1), (ServerFailed("broken"), 2)])
async def test_a_stream_that_ends_with_an_error_is_not_stored(
    error: Exception | None, calls: int
) -> None:
    server = Counting()
    server.error = error
    assert [(await server.post(path="/fail")).text for _ in range(2)] == ["a", "a"]
    assert server.calls == calls


async def sent_until(
    server: Counting, leaving: asyncio.Event, lease: Lease | None = None
) -> list[Message]:
    """What a client is sent of a stream that leaves then."""
    sent: list[Message] = []
    body: list[Message] = [{"type": "http.request", "body": b"{}"}]

    async def receive() -> Message:
        if body:
            return body.pop()
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", b"k"), (b"host", b"test")]
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/stream",
        "raw_path": b"/stream",
        "query_string": b"",
        "headers": headers,
    }
    state_of(scope).body_lease = lease
    await server.app(scope, receive, send)
    return sent


async def test_an_answer_outlives_its_client() -> None:
    server = Counting()
    await sent_until(server, server.started)
    server.go.set()
    assert (await server.post(path="/stream")).text == "ab"
    assert server.calls == 1


async def test_what_breaks_when_its_client_has_left_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Counting()
    server.error = ValueError("a bug")
    await sent_until(server, server.started)
    server.go.set()
    await settle()
    assert "a bug" in caplog.text
    server.error = None
    assert (await server.post(path="/stream")).text == "ab"
    assert server.calls == 2


async def test_an_answer_that_is_cancelled_as_the_server_ends_is_no_error() -> None:
    server = Counting()
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    others = asyncio.all_tasks()
    await sent_until(server, server.started)
    cancelled = asyncio.all_tasks() - others
    for task in cancelled:
        task.cancel()
    await asyncio.wait(cancelled)
    server.go.set()
    assert (await server.post(path="/stream")).text == "ab"
    assert server.calls == 2
    assert errors == []


async def test_a_stream_is_sent_as_it_is_made() -> None:
    server = Counting()
    sent = await sent_until(server, server.started)
    assert [message.get("body") for message in sent] == [None, b"a"]
    server.go.set()
    assert (await server.post(path="/stream")).text == "ab"


async def test_a_stored_stream_is_sent_in_one_piece() -> None:
    server = Counting()
    server.go.set()
    await server.post(path="/stream")
    sent = await sent_until(server, asyncio.Event())
    assert [message.get("body") for message in sent] == [None, b"ab"]


async def test_a_client_that_leaves_before_its_body_is_there_asks_nothing() -> None:
    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise AssertionError

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        raise AssertionError

    headers = [(b"idempotency-key", b"k")]
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await Owner(Idempotency(app))(scope, receive, send)


async def test_stored_answers_have_a_size_limit() -> None:
    server = Counting(capacity=2 * OVERHEAD + 200)
    for key in ("a", "b", "a", "c", "a", "b"):
        await server.post(key=key)
    # The third one made b go, which was used least recently.
    assert server.calls == 4


async def test_an_answer_that_is_larger_than_all_room_removes_no_other() -> None:
    server = Counting(capacity=2 * OVERHEAD + 200)
    for key, body in (("a", b"{}"), ("b", b"x" * 2 * OVERHEAD), ("a", b"{}")):
        await server.post(key=key, body=body)
    assert server.calls == 2


async def test_an_answer_that_is_larger_than_all_room_is_not_joined(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unjoinable:
        def __len__(self) -> int:
            return OVERHEAD

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": Unjoinable()})

    async def receive() -> Message:
        if body:
            return body.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    body: list[Message] = [{"type": "http.request", "body": b"{}"}]
    sent: list[Message] = []
    headers = [(b"idempotency-key", b"k")]
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await Owner(Idempotency(app, capacity=OVERHEAD))(scope, receive, send)
    await asyncio.sleep(0)
    assert len(sent) == 2
    assert caplog.records == []


async def test_what_is_forgotten_makes_room() -> None:
    """A hundred answers pass through room for two, and the last two are still there."""
    server = Counting(capacity=2 * OVERHEAD + 200)
    keys = [str(number) for number in range(100)]
    for key in [*keys, *keys[-2:]]:
        await server.post(key=key)
    assert server.calls == len(keys)


async def test_nobodys_request_is_answered_anew() -> None:
    server = Counting()
    for _ in range(2):
        await server.post(authorization="")
    assert server.calls == 2


async def test_nobodys_body_is_not_read() -> None:
    seen: list[Receive] = []

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        seen.append(receive)

    async def receive() -> Message:
        raise AssertionError

    async def send(_: Message) -> None:
        raise AssertionError

    headers = [(b"idempotency-key", b"k"), (b"authorization", b"")]
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await Owner(Idempotency(app))(scope, receive, send)
    assert seen == [receive]


async def test_a_key_that_is_too_long_is_refused_unread() -> None:
    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    headers = [(b"idempotency-key", b"k" * 256)]
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await Owner(Counting().app)(scope, receive, send)
    assert sent[0]["status"] == 400


async def test_a_key_of_the_most_characters_is_taken() -> None:
    server = Counting()
    answers = [await server.post("k" * MAX_KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert server.calls == 1


async def test_nothing_of_an_unread_body_is_stored() -> None:
    body = bytes(bytearray(1000))
    references = sys.getrefcount(body)
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response()(scope, receive, send)

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(_: Message) -> None: ...

    headers = [(b"idempotency-key", b"k")]
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    idempotency = Owner(Idempotency(app))
    await idempotency(scope, receive, send)
    assert sys.getrefcount(body) == references


async def test_a_lease_lasts_as_long_as_the_answer_is_made() -> None:
    server = Counting()
    budget = Budget(10)
    leases = [Lease(budget), Lease(budget)]
    for lease in leases:
        lease.charge(5)
    first = asyncio.ensure_future(sent_until(server, server.started, leases[0]))
    await first
    leases[0].end()
    assert budget.used == 10
    server.go.set()
    # A retry's body is of no use once it was compared.
    await sent_until(server, asyncio.Event(), leases[1])
    assert budget.used == 0


async def test_a_long_body_is_compared_too() -> None:
    server = Counting(capacity=10 * LARGE)
    for end in (b"a", b"a", b"b"):
        answer = await server.post(body=b"x" * LARGE + end)
    assert answer.status_code == 422
    assert server.calls == 1


async def test_a_body_that_is_sent_apart_from_its_start_is_stored_with_it() -> None:
    async def answer(scope: Scope, _: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        send_body = state_of(scope).send_body or send
        await send_body({"type": "http.response.body", "body": b"a"})

    idempotency = Owner(Idempotency(answer))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        state_of(scope).send_body = send
        await idempotency(scope, receive, send)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for _ in range(2):
            posted = await client.post("/", headers={"idempotency-key": "k"})
            assert posted.content == b"a"


async def test_a_header_that_is_added_to_an_answer_is_not_stored_with_it() -> None:
    server = Counting()
    numbers = iter("123")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        number = next(numbers)

        async def send_numbered(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("x-number", number)
            await send(message)

        await server.app(scope, receive, send_numbered)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answers = [await client.post("/count", headers={"idempotency-key": "k"}) for _ in range(3)]
    assert [answer.headers.get_list("x-number") for answer in answers] == [["1"], ["2"], ["3"]]
    assert server.calls == 1
