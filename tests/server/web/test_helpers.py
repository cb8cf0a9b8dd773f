"""The work for the playground beside that for the API."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from server import threads
from server.schemas.web import ParseHarmony
from server.web import helpers

PARSES = 2


BODY = ParseHarmony(text="a " * threads.MOST_SMALL)


@asynccontextmanager
async def parsing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list["asyncio.Task[Any]"]]:
    """As many requests as are parsed at once. Their threads work until the end of the block."""
    begun, end = threading.Semaphore(0), threading.Event()

    def parse(*_: Any) -> list[Any]:
        begun.release()
        end.wait()
        return []

    monkeypatch.setattr(helpers, "parse", parse)
    parses = [asyncio.create_task(helpers.parsed_harmony(BODY)) for _ in range(PARSES)]
    try:
        for _ in range(PARSES):
            await asyncio.to_thread(begun.acquire)
        yield parses
    finally:
        end.set()
        await asyncio.gather(*parses, return_exceptions=True)


async def test_parsing_takes_no_place_of_requests_to_the_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with parsing(monkeypatch), asyncio.timeout(30):
        assert await threads.run(lambda: "done", threads.Size.MEDIUM) == "done"


async def test_a_request_whose_client_leaves_has_its_place_until_its_work_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with parsing(monkeypatch) as parses:
        for each in parses:
            each.cancel()
        await asyncio.wait(parses)
        later = asyncio.create_task(helpers.parsed_harmony(BODY))
        await asyncio.sleep(0)
        assert len(helpers._parsing._waiting) == 1
    assert (await later).status_code == 200
