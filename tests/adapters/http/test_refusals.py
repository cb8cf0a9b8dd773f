import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from adapters.base import GenerationRequest
from adapters.errors import (
    BackendError,
    EngineFault,
    InvalidGrammar,
    Mismatch,
    NotReady,
    Overloaded,
    Rejected,
)
from adapters.http.refusals import (
    BAD_REQUEST,
    error_of_event,
    error_of_response,
    error_of_status,
    message_of,
)

REQUEST = GenerationRequest("r", (1,), 1, frozenset())
MASKED = GenerationRequest("r", (1,), 1, frozenset(), grammar="start: <[1]>")


class Body(httpx.AsyncByteStream):
    """Counts the parts of a body that are read. Waits for ever at the end if `stays_open`."""

    def __init__(self, *parts: bytes, stays_open: bool = False) -> None:
        self.read = 0
        self._parts = parts
        self._stays_open = stays_open

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            self.read += 1
            yield part
        if self._stays_open:
            await asyncio.Event().wait()


async def error_of(status: int, body: Body, **headers: str) -> BackendError:
    listed = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=listed, stream=body)
    return await error_of_response(response, MASKED, BAD_REQUEST)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected),
        (401, Mismatch),
        (403, Mismatch),
        (404, Mismatch),
        (405, Mismatch),
        (408, Overloaded),
        (413, Rejected),
        (422, Mismatch),
        (429, Overloaded),
        (431, Rejected),
        (500, EngineFault),
        (502, EngineFault),
        (503, NotReady),
        (204, EngineFault),
        (302, EngineFault),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[BackendError]) -> None:
    error = error_of_status(status, "grammar", REQUEST)
    assert type(error) is kind
    assert "grammar" not in str(error)


def test_a_server_may_refuse_requests_by_other_statuses() -> None:
    assert type(error_of_status(422, "", REQUEST, BAD_REQUEST | {422})) is Rejected


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_may_be_tried_again(status: int) -> None:
    error = error_of_status(status, "", REQUEST, retry_after=7)
    assert isinstance(error, Overloaded)
    assert error.retry_after == 7


def test_a_refusal_that_mentions_the_grammar_is_the_grammars() -> None:
    error = error_of_status(400, "inner: bad Grammar", MASKED)
    assert type(error) is InvalidGrammar
    assert "inner" not in str(error)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"choices": []}, None),
        ({"error": None}, None),
        ({"error": {"message": "a", "code": 503}}, (503, "a")),
        ({"error": {"message": "a", "code": "full"}}, (500, "a")),
        ({"error": {"message": "a"}}, (500, "a")),
        ({"error": "a"}, (500, "a")),
    ],
)
def test_an_event_may_be_an_error(event: dict[str, Any], error: tuple[int, str] | None) -> None:
    assert error_of_event(event, 500) == error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"error": "a"}', "a"),
        (b'{"detail": [1]}', "[1]"),
        (b"\xff plain", "\ufffd plain"),
        (b"x" * 1000, "x" * 500),
    ],
)
def test_the_message_is_found_in_any_error(body: bytes, message: str) -> None:
    assert message_of(body) == message


async def test_the_message_is_read_from_the_body_of_a_response() -> None:
    assert type(await error_of(400, Body(b'{"error": "bad ', b'grammar"}'))) is InvalidGrammar


async def test_the_body_of_an_error_is_read_in_part() -> None:
    body = Body(*[b"x" * 8000] * 100)
    assert type(await error_of(400, body)) is Rejected
    assert body.read == 2


async def test_a_body_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.http.refusals._ERROR_SECONDS", 0.01)
    async with asyncio.timeout(10):
        error = await error_of(400, Body(b"bad grammar", stays_open=True))
    assert type(error) is InvalidGrammar


@pytest.mark.parametrize("status", [404, 429, 500, 503])
async def test_a_body_that_does_not_matter_is_not_read(status: int) -> None:
    body = Body(b"grammar")
    await error_of(status, body)
    assert body.read == 0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("9" * 400, 3600),
        ("86400", 3600),
        ("-1", 1),
        ("Thu, 01 Jan 2032 00:00:00 GMT", 1),
    ],
)
async def test_a_retry_after_is_an_hour_at_most(value: str, seconds: float) -> None:
    error = await error_of(429, Body(), retry_after=value)
    assert isinstance(error, Overloaded)
    assert error.retry_after == seconds
