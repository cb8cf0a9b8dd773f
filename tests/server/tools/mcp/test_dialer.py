"""How servers of older protocols are connected to."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from server.tools.mcp import connection
from server.tools.mcp.connection import CLOSED, Connection, Negotiated
from server.tools.mcp.dialer import Dialer
from server.tools.mcp.failures import Failure, http_error, protocol_error
from server.tools.mcp.http import Exchange
from server.tools.mcp.servers import Server
from tests.server.tools.mcp.conftest import SERVERS, guard

Way = tuple[str, Negotiated | None]
OLD = Server("old", url="https://old.example.com/sse")
PROGRAM = str(SERVERS / "growing.py")


@pytest.fixture
async def dial() -> AsyncIterator[Callable[[Server], Any]]:
    """Opens connections, which end with the test."""
    opened: list[Connection] = []

    async def dial(server: Server) -> Connection:
        connection.prepare_sdk()
        opened.append(await Dialer(guard, lambda task: None).dial(server))
        return opened[-1]

    yield dial
    for each in opened:
        await each.close()


class FakeConnection:
    """A connection that opens, or fails with what a test says."""

    def __init__(self, failure: Failure | None) -> None:
        self.exchange = Exchange()
        self.exchange.status = failure.code if failure and failure.type == "http_error" else None
        self.failure = failure

    async def ready(self) -> None:
        if self.failure is not None:
            raise self.failure


class FakeDialer(Dialer):
    """Its connections fail as `fails` says; `ways` has all that were tried."""

    def __init__(self, fails: Callable[[Way], Failure | None]) -> None:
        super().__init__(guard, lambda task: None)
        self.fails = fails
        self.ways: list[Way] = []

    def _connection(self, server: Server, kind: Any, known: Negotiated | None) -> Any:
        self.ways.append((kind, known))
        return FakeConnection(self.fails(self.ways[-1]))


async def test_a_program_that_ends_at_the_question_for_its_protocol_is_started_again(
    dial: Callable[[Server], Any],
) -> None:
    opened = await dial(Server("old", command=(sys.executable, PROGRAM, "ends")))

    assert opened.negotiated == Negotiated("stdio")
    assert not opened.closed


async def test_a_program_that_ignores_the_question_for_its_protocol_is_waited_for_shortly(
    dial: Callable[[Server], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.1)

    async with asyncio.timeout(9.0):  # Less than the SDK would wait.
        opened = await dial(Server("old", command=(sys.executable, PROGRAM, "silent")))

    assert opened.negotiated == Negotiated("stdio")


async def test_a_program_that_ends_in_any_case_is_started_twice() -> None:
    dialer = FakeDialer(lambda way: protocol_error(CLOSED))

    with pytest.raises(Failure, match=CLOSED):
        await dialer.dial(Server("old", command=("program",)))

    assert dialer.ways == [("stdio", None), ("stdio", Negotiated("stdio"))]


async def test_a_stream_that_ends_at_the_question_for_the_protocol_is_opened_again() -> None:
    ends: dict[Way, Failure] = {
        ("http", None): http_error(405, "Method Not Allowed"),
        ("sse", None): protocol_error(CLOSED),
    }
    dialer = FakeDialer(lambda way: ends.get(way))

    await dialer.dial(OLD)

    assert dialer.ways == [*ends, ("sse", Negotiated("sse"))]


async def test_a_server_that_cannot_be_reached_is_tried_once() -> None:
    dialer = FakeDialer(lambda way: protocol_error("The server could not be reached."))

    with pytest.raises(Failure):
        await dialer.dial(OLD)

    assert dialer.ways == [("http", None)]
