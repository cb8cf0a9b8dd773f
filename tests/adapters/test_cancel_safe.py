"""Requests whose tasks are cancelled, over real connections."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from adapters.cancel_safe import CancelSafeTransport
from tests.adapters.fake_engine import FakeEngine, running, sends

# More steps of the event loop than a request takes.
STEPS = 80


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine("vllm.json")
    engine.will("/parts", sends("one", "two"))
    async with running(engine):
        yield engine


async def read(client: httpx.AsyncClient) -> bytes:
    async with client.stream("GET", "/parts") as response:
        return b"".join([part async for part in response.aiter_raw()])


def client_of(engine: FakeEngine, **limits: int) -> tuple[httpx.AsyncClient, Any]:
    """A client of the engine, and its pool of connections."""
    inner: Any = httpx.AsyncHTTPTransport(limits=httpx.Limits(**limits))
    return httpx.AsyncClient(base_url=engine.url, transport=CancelSafeTransport(inner)), inner._pool


async def test_a_body_is_read_and_its_connection_is_free_then(engine: FakeEngine) -> None:
    client, pool = client_of(engine)
    async with client:
        assert await read(client) == b"onetwo"
        assert [connection.is_idle() for connection in pool.connections] == [True]


@pytest.mark.parametrize("kept", [0, 10])
async def test_no_cancellation_leaves_a_connection_in_use(engine: FakeEngine, kept: int) -> None:
    client, pool = client_of(engine, max_keepalive_connections=kept)
    async with client:
        for steps in range(STEPS):
            reading = asyncio.create_task(read(client))
            for _ in range(steps):
                await asyncio.sleep(0)
            was_cancelled = reading.cancel()
            (result,) = await asyncio.gather(reading, return_exceptions=True)
            assert was_cancelled is isinstance(result, asyncio.CancelledError)
        assert all(each.is_idle() or each.is_closed() for each in pool.connections)


async def test_an_error_after_a_cancellation_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            try:
                return await asyncio.Future[httpx.Response]()
            finally:
                raise httpx.ReadError("broken")

    request = httpx.Request("GET", "http://engine")
    sending = asyncio.create_task(CancelSafeTransport(Failing()).handle_async_request(request))
    for _ in range(3):
        await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait({sending})
    assert sending.cancelled()
    del sending
    gc.collect()
    assert caplog.records == []
