"""The work for the playground beside that for the API."""

import asyncio
import threading
from typing import Any

import pytest

from server import threads
from server.schemas.web import ParseHarmony
from server.web import helpers

PARSES = 2


async def test_parsing_takes_no_place_of_requests_to_the_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, end = threading.Semaphore(0), threading.Event()

    def parse(*_: Any) -> list[Any]:
        begun.release()
        end.wait()
        return []

    monkeypatch.setattr(helpers, "parse", parse)
    body = ParseHarmony(text="a " * threads.MOST_SMALL)
    parses = [asyncio.create_task(helpers.parsed_harmony(body)) for _ in range(PARSES)]
    try:
        for _ in range(PARSES):
            await asyncio.to_thread(begun.acquire)
        async with asyncio.timeout(30):
            assert await threads.run(lambda: "done", threads.Size.MEDIUM) == "done"
    finally:
        end.set()
        await asyncio.gather(*parses)
