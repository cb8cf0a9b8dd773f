"""Requests as the middleware around them counts them."""

from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.errors import RateLimited
from server.http.answers.answer import error_response
from server.http.middleware import RequestId
from server.http.request_state import state_of
from server.http.traffic import RequestEnded, Traffic, TrafficObserver


class Observer(TrafficObserver):
    def __init__(self) -> None:
        self.ended: list[RequestEnded] = []

    def request_ended(self, request: RequestEnded) -> None:
        self.ended.append(request)


async def receive() -> Message:
    return {"type": "http.disconnect"}


async def send(message: Message) -> None:
    """Drop the message."""


def scope(kind: str = "http") -> dict[str, Any]:
    """The scope of a request."""
    scope = {
        "type": kind,
        "method": "GET",
        "path": "/a/1",
        "headers": [],
        "extensions": {"websocket.http.response": {}},
    }
    state_of(scope).route = "/a/{b}"
    return scope


async def test_a_request_ends_with_its_route_and_status() -> None:
    observer = Observer()
    await RequestId(Response("a"), traffic=Traffic(observer))(scope(), receive, send)
    assert observer.ended == [RequestEnded("/a/{b}", "GET", 200, None)]


async def test_an_error_has_its_code() -> None:
    observer = Observer()
    app = RequestId(error_response(RateLimited("full")), traffic=Traffic(observer))
    await app(scope(), receive, send)
    assert observer.ended == [RequestEnded("/a/{b}", "GET", 429, "rate_limit_exceeded")]


@pytest.mark.parametrize(
    ("media_type", "count"), [("text/event-stream; charset=utf-8", 1), ("text/plain", 0)]
)
async def test_a_stream_is_open_until_its_application_ends(media_type: str, count: int) -> None:
    traffic = Traffic()
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("a", media_type=media_type)(scope, receive, send)
        seen.append(traffic.streams)
        raise OSError("the client has left")

    with pytest.raises(OSError, match="left"):
        await RequestId(app, traffic=traffic)(scope(), receive, send)
    assert (seen, traffic.streams) == ([count], 0)


async def test_a_websocket_is_open_until_its_application_ends() -> None:
    observer = Observer()
    traffic = Traffic(observer)
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "a"})
        seen.append(traffic.sockets)

    await RequestId(app, traffic=traffic)(scope("websocket"), receive, send)
    assert (seen, traffic.sockets) == ([1], 0)
    assert observer.ended == [RequestEnded("/a/{b}", "WS", 101, None)]


async def test_a_websocket_that_is_refused_has_its_status() -> None:
    observer = Observer()
    app = RequestId(error_response(RateLimited("full")), traffic=Traffic(observer))
    await app(scope("websocket"), receive, send)
    assert observer.ended == [RequestEnded("/a/{b}", "WS", 429, "rate_limit_exceeded")]
