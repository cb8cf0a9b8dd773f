"""HTML is converted in processes that can be stopped."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from server.tools.browser import html_process
from server.tools.browser.html import html_page
from server.tools.browser.html_process import SMALL, HtmlProcesses
from server.tools.fetch.errors import UnsupportedBody

URL = "https://site.example/"
LARGE = "<title>Café 𝒳</title>" + '<p><a href="/x">【1†text】</a> more\n' * 1000
ENDLESS = "<ul><li>" * 500_000
"""The parser needs hours for it."""


@pytest.fixture
async def processes() -> AsyncIterator[HtmlProcesses]:
    processes = HtmlProcesses(60.0)
    yield processes
    await processes.close()
    await processes.close()


async def test_the_page_is_the_same_as_without_a_process(processes: HtmlProcesses) -> None:
    assert len(LARGE) > SMALL
    assert await processes.convert(LARGE, URL) == html_page(LARGE, URL)


async def test_a_small_page_needs_no_process(processes: HtmlProcesses) -> None:
    assert await processes.convert("<p>x", URL) == html_page("<p>x", URL)
    assert not processes._idle


async def test_a_process_converts_one_page_after_another(processes: HtmlProcesses) -> None:
    await processes.convert(LARGE, URL)
    (process,) = processes._idle
    await processes.convert(LARGE, URL)
    assert processes._idle == [process]


async def test_pages_at_once_have_processes_of_their_own(processes: HtmlProcesses) -> None:
    texts = [f"{LARGE}{number}" for number in range(3)]
    pages = await asyncio.gather(*(processes.convert(text, URL) for text in texts))
    assert pages == [html_page(text, URL) for text in texts]
    assert len(processes._idle) == 2


async def test_a_page_that_takes_too_long_is_stopped() -> None:
    processes = HtmlProcesses(0.5)
    with pytest.raises(UnsupportedBody, match="too long"):
        await processes.convert(ENDLESS, URL)
    assert not processes._idle


async def test_a_process_that_died_fails_one_page(processes: HtmlProcesses) -> None:
    await processes.convert(LARGE, URL)
    processes._idle[0].kill()
    with pytest.raises(UnsupportedBody, match="cannot be read"):
        await processes.convert(LARGE, URL)
    assert await processes.convert(LARGE, URL) == html_page(LARGE, URL)


async def test_a_cancelled_conversion_ends_its_process(
    processes: HtmlProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()
    started: list[asyncio.subprocess.Process] = []

    async def wait(process: asyncio.subprocess.Process, html: str, url: str) -> None:
        started.append(process)
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(html_process, "_ask", wait)
    task = asyncio.create_task(processes.convert(LARGE, URL))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started[0].returncode is not None
    assert not processes._idle


def test_the_program_answers_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    content = "<p>𝒳".encode()
    request = json.dumps({"url": URL, "size": len(content)}).encode() + b"\n" + content
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(request * 2)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output))
    html_process.serve()
    answer = json.dumps(html_page("<p>𝒳", URL).to_json()).encode()
    assert output.getvalue() == (len(answer).to_bytes(8, "big") + answer) * 2
