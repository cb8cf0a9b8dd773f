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
from server.tools.browser.page import Page
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


async def test_a_process_is_not_kept_after_a_large_page(processes: HtmlProcesses) -> None:
    await processes.convert(LARGE, URL)
    (process,) = processes._idle
    await processes.convert(f"<!--{' ' * (1 << 19)}-->", URL)
    assert not processes._idle
    assert process.returncode is not None


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


async def test_an_idle_process_that_dies_fails_no_page(processes: HtmlProcesses) -> None:
    await processes.convert(LARGE, URL)
    processes._idle[0].kill()
    assert await processes.convert(LARGE, URL) == html_page(LARGE, URL)


async def test_an_idle_process_that_is_known_to_have_ended_is_not_asked(
    processes: HtmlProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, converted = [], html_process._converted

    async def noted(process: asyncio.subprocess.Process, html: str, url: str) -> Page:
        asked.append(process)
        return await converted(process, html, url)

    monkeypatch.setattr(html_process, "_converted", noted)
    await processes.convert(LARGE, URL)
    asked[0].kill()
    await asked[0].wait()
    await processes.convert(LARGE, URL)
    assert len(asked) == 2
    assert asked[0] is not asked[1]


async def test_a_page_that_ends_each_process_is_asked_for_twice_at_most(
    processes: HtmlProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def ended(process: asyncio.subprocess.Process, html: str, url: str) -> Page:
        asked.append(process)
        raise asyncio.IncompleteReadError(b"", 8)

    await processes.convert(LARGE, URL)
    monkeypatch.setattr(html_process, "_converted", ended)
    for count in (2, 3):
        with pytest.raises(UnsupportedBody, match="cannot be read"):
            await processes.convert(LARGE, URL)
        assert len(asked) == count
    assert all(process.returncode is not None for process in asked)


async def test_a_cancelled_conversion_ends_its_process(
    processes: HtmlProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()
    started: list[asyncio.subprocess.Process] = []

    async def wait(process: asyncio.subprocess.Process, html: str, url: str) -> None:
        started.append(process)
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(html_process, "_converted", wait)
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
