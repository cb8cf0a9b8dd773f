"""Large documents become pages in processes that can be stopped."""

import asyncio
import io
import json
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from server.tools.browser import page_process
from server.tools.browser.documents import text_page
from server.tools.browser.page import Page
from server.tools.browser.page_process import SMALL_HTML, SMALL_TEXT, PageProcesses
from server.tools.fetch.errors import UnsupportedBody
from server.tools.fetch.pages import PDF, FetchedPage
from tests.server.tools.browser import documents

URL = "https://site.example/"


def fetched(text: str, kind: str = "text/html", charset: str | None = "utf-8") -> FetchedPage:
    return FetchedPage(URL, kind, charset, text.encode(charset or "utf-8"))


LARGE = fetched("<title>Café 𝒳</title>" + '<p><a href="/x">【1†text】</a> more\n' * 2000)
ENDLESS = "<ul><li>" * 500_000
"""The parser needs hours for it."""


@pytest.fixture
async def processes() -> AsyncIterator[PageProcesses]:
    processes = PageProcesses(60.0)
    yield processes
    await processes.close()
    await processes.close()


@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize(
    "page",
    [
        LARGE,
        fetched("# Title\n\n[a](/x) é\x01\n" * 10_000, "text/markdown", "utf-16"),
        fetched("a\tb\r\n" * 20_000, "text/plain", None),
        fetched(f"[{'1, ' * 30_000}2]", "application/json"),
    ],
)
async def test_a_large_page_is_the_same_as_without_a_process(
    processes: PageProcesses, page: FetchedPage, source: bool
) -> None:
    assert await processes.convert(page, source=source) == text_page(page, source=source)
    assert processes._idle


@pytest.mark.parametrize(
    "page",
    [
        fetched("x" * SMALL_HTML),
        fetched("x" * SMALL_TEXT, "text/markdown"),
        fetched("é", "text/plain", None),
    ],
)
async def test_a_small_page_needs_no_process(processes: PageProcesses, page: FetchedPage) -> None:
    assert await processes.convert(page) == text_page(page)
    assert not processes._idle


@pytest.mark.parametrize(
    ("page", "source"),
    [
        (fetched("x" * (SMALL_HTML + 1)), False),
        (fetched("x" * (SMALL_TEXT + 1)), True),
        (fetched("x" * (SMALL_TEXT + 1), "text/markdown"), False),
        (FetchedPage(URL, "text/plain", None, b"\xe9\xe8 abc"), False),
    ],
)
async def test_slow_work_on_a_page_is_left_to_a_process(
    processes: PageProcesses, monkeypatch: pytest.MonkeyPatch, page: FetchedPage, source: bool
) -> None:
    """Within the server it would let no other thread run."""
    monkeypatch.setattr(page_process, "text_page", None)
    assert (await processes.convert(page, source=source)).url == URL


async def test_a_process_converts_one_page_after_another(processes: PageProcesses) -> None:
    await processes.convert(LARGE)
    (process,) = processes._idle
    await processes.convert(LARGE)
    assert processes._idle == [process]


async def test_a_process_has_the_home_of_the_server_but_not_its_keys(
    processes: PageProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packages of a user are below the home, which need not be that of the account."""

    async def start(*command: str, env: dict[str, str], **streams: Any) -> Process:
        environments.append(env)
        return await create(*command, env=env, **streams)

    create = asyncio.create_subprocess_exec
    environments: list[dict[str, str]] = []
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    monkeypatch.setenv("HOME", "/home/of/a/user")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    await processes.convert(LARGE)
    (environment,) = environments
    assert environment["HOME"] == "/home/of/a/user"
    assert "secret" not in environment.values()


@pytest.mark.parametrize("page", [LARGE, FetchedPage(URL, PDF, None, documents.pdf("x"))])
async def test_ctrl_c_does_not_reach_a_process(
    processes: PageProcesses, monkeypatch: pytest.MonkeyPatch, page: FetchedPage
) -> None:
    """A terminal sends it to the whole group. The server then finishes its answers."""

    async def start(*command: str, **options: Any) -> Process:
        process = await create(*command, **options)
        groups.append(os.getpgid(process.pid))
        return process

    create = asyncio.create_subprocess_exec
    groups: list[int] = []
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    await processes.convert(page)
    assert len(groups) == 1
    assert groups != [os.getpgid(0)]


async def test_closing_ends_the_processes_that_are_kept(processes: PageProcesses) -> None:
    await processes.convert(LARGE)
    (process,) = processes._idle
    await processes.close()
    assert process.returncode is not None


async def test_a_small_page_can_be_shown_as_its_source(processes: PageProcesses) -> None:
    page = await processes.convert(fetched("<p>a"), source=True)
    assert page.text.endswith("<p>a")


async def test_a_process_is_not_kept_after_a_large_page(processes: PageProcesses) -> None:
    await processes.convert(LARGE)
    (process,) = processes._idle
    await processes.convert(fetched(f"<!--{' ' * (1 << 19)}-->"))
    assert not processes._idle
    assert process.returncode is not None


async def test_pages_at_once_have_processes_of_their_own(processes: PageProcesses) -> None:
    texts = [fetched(f"{number}<p>x" * 2000) for number in range(3)]
    pages = await asyncio.gather(*(processes.convert(text) for text in texts))
    assert pages == [text_page(text) for text in texts]
    assert len(processes._idle) == 2


async def test_a_page_that_takes_too_long_is_stopped() -> None:
    processes = PageProcesses(0.5)
    with pytest.raises(UnsupportedBody, match="too long"):
        await processes.convert(fetched(ENDLESS))
    assert not processes._idle


async def test_an_idle_process_that_dies_fails_no_page(processes: PageProcesses) -> None:
    await processes.convert(LARGE)
    processes._idle[0].kill()
    assert await processes.convert(LARGE) == text_page(LARGE)


async def test_an_idle_process_that_is_known_to_have_ended_is_not_asked(
    processes: PageProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, converted = [], page_process._converted

    async def noted(
        process: asyncio.subprocess.Process, fetched: FetchedPage, *, source: bool
    ) -> Page:
        asked.append(process)
        return await converted(process, fetched, source=source)

    monkeypatch.setattr(page_process, "_converted", noted)
    await processes.convert(LARGE)
    asked[0].kill()
    await asked[0].wait()
    await processes.convert(LARGE)
    assert len(asked) == 2
    assert asked[0] is not asked[1]


async def test_a_page_that_ends_each_process_is_asked_for_twice_at_most(
    processes: PageProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def ended(
        process: asyncio.subprocess.Process, fetched: FetchedPage, *, source: bool
    ) -> Page:
        asked.append(process)
        raise asyncio.IncompleteReadError(b"", 8)

    await processes.convert(LARGE)
    monkeypatch.setattr(page_process, "_converted", ended)
    for count in (2, 3):
        with pytest.raises(UnsupportedBody, match="cannot be read"):
            await processes.convert(LARGE)
        assert len(asked) == count
    assert all(process.returncode is not None for process in asked)


async def test_a_cancelled_conversion_ends_its_process(
    processes: PageProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()
    started: list[asyncio.subprocess.Process] = []

    async def wait(
        process: asyncio.subprocess.Process, fetched: FetchedPage, *, source: bool
    ) -> None:
        started.append(process)
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(page_process, "_converted", wait)
    task = asyncio.create_task(processes.convert(LARGE))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started[0].returncode is not None
    assert not processes._idle


def test_the_program_answers_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    content = "<p>𝒳".encode()
    header = {"url": URL, "media_type": "text/html", "charset": "utf-8", "source": False}
    request = json.dumps({**header, "size": len(content)}).encode() + b"\n" + content
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(request * 2)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output))
    page_process.serve()
    fields = text_page(fetched("<p>𝒳")).to_json()
    text = fields.pop("text").encode()
    parts = (json.dumps(fields).encode(), text)
    assert output.getvalue() == b"".join(len(p).to_bytes(8, "big") + p for p in parts) * 2
