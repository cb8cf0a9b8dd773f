"""What one response of a server may hold."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from server.tools.fetch.pieces import BYTES_PER_PIECE
from server.tools.mcp.http import Exchange, http_client
from server.tools.mcp.limits import BYTES_PER_LINE
from server.tools.mcp.message_size import MAX_RESPONSE, MAX_VALUES


async def test_results_of_calls_do_not_count_with_lists() -> None:
    """Calls may run while the tools are listed on the same connection."""
    exchange = Exchange()
    server: Any = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"x" * 100))
    async with http_client(lambda _: server, exchange, None) as client:
        await client.post("http://server", headers={"mcp-method": "tools/list"})
        await client.post("http://server", headers={"mcp-method": "tools/call"})
        await client.post("http://server")
    assert exchange.received == 200


async def test_parameters_of_a_content_type_are_not_read() -> None:
    """The time to read them grows with the square of their size; events are UTF-8 in any case."""
    kind = "Text/Event-Stream; charset=latin-1; a=b"
    body = "data: é\n\n".encode()
    server: Any = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": kind}, content=body)
    )
    async with (
        http_client(lambda _: server, Exchange(), None) as client,
        client.stream("POST", "http://server") as response,
    ):
        events = [event.data async for event in httpx2.EventSource(response)]
    assert (response.headers["content-type"], events) == ("text/event-stream", ["é"])


EVENTS = "text/event-stream"


async def received(
    body: bytes, kind: str = "application/json", method: str = "POST", **headers: str
) -> Exchange:
    """What was noticed of a response. Raises StreamError for one that is too large."""
    exchange = Exchange()
    answer = {"content-type": kind, **headers}
    server: Any = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers=answer, stream=httpx2.ByteStream(body))
    )
    async with http_client(lambda _: server, exchange, None) as client:
        try:
            await client.request(method, "http://server")
        except httpx2.StreamError:
            assert exchange.too_large
            raise
    assert not exchange.too_large
    return exchange


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"x" * MAX_RESPONSE, "application/json"),
        (b"[" * MAX_VALUES, "application/json"),
        (b"\n" * (MAX_RESPONSE // BYTES_PER_LINE + 1), "application/json"),
        (b"\n" * (MAX_RESPONSE // BYTES_PER_LINE), EVENTS),
        ((b"data: " + b"[" * MAX_VALUES + b"\n\n") * 2, EVENTS),
    ],
    ids=["bytes", "values", "lines that are no events", "lines", "values of two events"],
)
async def test_a_response_may_be_as_large_as_its_limits(body: bytes, kind: str) -> None:
    assert (await received(body, kind)).received == len(body)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"x" * (MAX_RESPONSE + 1), "application/json"),
        (b"[" * (MAX_VALUES + 1), "application/json"),
        (b"\n" * (MAX_RESPONSE // BYTES_PER_LINE + 1), EVENTS),
        (b"\r" * (MAX_RESPONSE // BYTES_PER_LINE + 1), EVENTS),
    ],
    ids=["bytes", "values", "lines", "lines of an old computer"],
)
async def test_a_response_over_a_limit_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(httpx2.StreamError):
        await received(body, kind)


async def test_a_response_in_too_many_pieces_is_refused() -> None:
    """Each takes time, however small it is."""

    class Bytes(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(MAX_RESPONSE // BYTES_PER_PIECE + 1):
                yield b"x"

    exchange = Exchange()
    server: Any = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=Bytes()))
    async with http_client(lambda _: server, exchange, None) as client:
        with pytest.raises(httpx2.StreamError):
            await client.post("http://server")
    assert exchange.too_large


async def test_a_stream_that_lasts_may_have_more_than_one_response() -> None:
    await received(b"x" * (MAX_RESPONSE + 1), EVENTS, "GET")


@pytest.mark.parametrize("pieces", [[rb'"cut \ud83d"'], [rb'"cut \ud8', rb'3d"'], [rb"\ud83d"]])
async def test_halves_of_characters_are_replaced(pieces: list[bytes]) -> None:
    class Pieces(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

    server: Any = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=Pieces()))
    async with http_client(lambda _: server, Exchange(), None) as client:
        response = await client.post("http://server")
    assert response.content == b"".join(pieces).replace(b"ud83d", b"ufffd")


async def test_a_compressed_response_is_refused() -> None:
    with pytest.raises(httpx2.DecodingError):
        await received(b"x", **{"content-encoding": "gzip"})


async def test_no_compressed_response_is_asked_for() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers["accept-encoding"])
        return httpx2.Response(200)

    server: Any = httpx2.MockTransport(answer)
    async with http_client(lambda _: server, Exchange(), None) as client:
        await client.post("http://server")
    assert asked == ["identity"]


async def test_no_redirect_is_followed() -> None:
    """The SDK follows those within the origin."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(307, headers={"location": "http://other/"})

    server: Any = httpx2.MockTransport(answer)
    async with http_client(lambda _: server, Exchange(), None) as client:
        assert (await client.post("http://server/")).status_code == 307
    assert asked == ["http://server/"]


SESSION = {"mcp-session-id": "a"}


@pytest.mark.parametrize(
    ("method", "headers", "status", "recorded", "forgotten"),
    [
        ("POST", {}, 200, None, False),
        ("POST", {}, 299, None, False),
        ("POST", {}, 300, 300, False),
        ("POST", {}, 404, 404, False),
        ("POST", SESSION, 404, 404, True),
        ("POST", SESSION, 400, 400, False),
        ("GET", SESSION, 404, None, False),
        ("DELETE", SESSION, 404, None, False),
    ],
)
def test_the_status_of_the_last_message_is_recorded(
    method: str, headers: dict[str, str], status: int, recorded: int | None, forgotten: bool
) -> None:
    exchange = Exchange()

    exchange.record(httpx2.Request(method, "http://server", headers=headers), status)

    assert (exchange.status, exchange.forgotten) == (recorded, forgotten)


def test_a_success_ends_what_was_recorded_before() -> None:
    exchange = Exchange()
    for status in (404, 200):
        exchange.record(httpx2.Request("POST", "http://server", headers=SESSION), status)

    assert (exchange.status, exchange.forgotten) == (None, False)


def test_a_request_that_begins_forgets_what_was_recorded_before() -> None:
    exchange = Exchange()
    exchange.record(httpx2.Request("POST", "http://server", headers=SESSION), 404)
    exchange.too_large = True

    exchange.begin()

    assert (exchange.status, exchange.forgotten, exchange.too_large) == (None, False, False)


def test_the_status_of_a_connection_is_recorded_where_it_is_a_get() -> None:
    exchange = Exchange()
    exchange.gets = True

    exchange.record(httpx2.Request("GET", "http://server"), 403)

    assert exchange.status == 403
