"""Searching a folder of documents."""

import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from server.tools.browser import page_process, pdf
from server.tools.browser.documents import text_page
from server.tools.browser.page import Page
from server.tools.browser.page_process import PageProcesses
from server.tools.browser.search import files as files_module
from server.tools.browser.search import index as index_module
from server.tools.browser.search import packaged
from server.tools.browser.search.base import ProviderOptions, SearchError, SearchQuery
from server.tools.browser.search.chain import SearchChain
from server.tools.browser.search.files import FilesProvider
from server.tools.browser.search.index import FolderIndex
from server.tools.fetch.pages import FetchedPage
from tests.server.tools.browser import documents

ENDLESS = "<title>Endless</title>" + "<ul><li>" * 500_000
"""The parser needs hours for it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "My Docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "tides.md").write_text("# Tide tables\n\nSpring tides at [Kiel](sub/kiel.html).")
    (folder / "sub" / "kiel.html").write_text("<title>Kiel</title><p>A harbour on the Baltic Sea.")
    (folder / "notes.txt").write_text("Café crème and other notes about harbours")
    (folder / "chart.pdf").write_bytes(documents.pdf("Lighthouses of the coast", title="Chart"))
    (folder / ".hidden.md").write_text("hidden harbour")
    (folder / "image.png").write_bytes(b"harbour")
    return folder


Open = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    providers = []

    async def open_folder(folder: Path, cache: str | None = "") -> FilesProvider:
        cache = str(tmp_path / "cache") if cache == "" else cache
        provider = FilesProvider(ProviderOptions(str(folder), cache=cache))
        await provider.start()
        assert provider.problem is None
        providers.append(provider)
        return provider

    yield open_folder
    for provider in providers:
        await provider.stop()
        await provider.stop()


async def found(provider: FilesProvider, text: str) -> list[str]:
    return [result.url for result in await provider.search(SearchQuery(text))]


async def test_documents_of_all_kinds_are_found(folder: Path, opened: Open) -> None:
    provider = await opened(folder)
    results = await provider.search(SearchQuery("What is a tide table?"))
    assert [(each.url, each.title, each.summary) for each in results] == [
        ("file-search://my-docs/tides.md", "Tide tables", "# Tide tables Spring tides at Kiel.")
    ]
    assert await found(provider, "baltic") == ["file-search://my-docs/sub/kiel.html"]
    assert await found(provider, "cafe CREME") == ["file-search://my-docs/notes.txt"]
    assert await found(provider, "lighthouse") == ["file-search://my-docs/chart.pdf"]


async def test_the_best_document_comes_first(folder: Path, opened: Open) -> None:
    (folder / "a.md").write_text("# Other\n\n" + "words " * 500 + "harbour")
    (folder / "b.md").write_text("# Harbour\n\nharbour harbour")
    assert (await found(await opened(folder), "harbours"))[0] == "file-search://my-docs/b.md"


async def test_no_query_breaks_the_index(folder: Path, opened: Open) -> None:
    provider = await opened(folder)
    texts = ("", "?!", '"', "NEAR(", "zzz AND", "* OR *", "title:x", "absent")
    assert {text: await found(provider, text) for text in texts} == {text: [] for text in texts}


async def test_what_is_hidden_or_no_document_is_not_found(folder: Path, opened: Open) -> None:
    assert await found(await opened(folder), "hidden") == []


async def test_a_link_to_another_place_is_not_followed(
    folder: Path, opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "linked").symlink_to(tmp_path)
    provider = await opened(folder)
    assert await found(provider, "secret") == []
    assert await provider.read("file-search://my-docs/link.md") is None


async def test_documents_are_read_by_their_urls(folder: Path, opened: Open) -> None:
    (folder / "a b%.md").write_text("odd name")
    provider = await opened(folder)
    (url,) = await found(provider, "odd")
    assert url == "file-search://my-docs/a%20b%25.md"
    page = await provider.read(url)
    assert (page.url, page.media_type, page.body) == (url, "text/markdown", b"odd name")


NOT_READ = (
    "file-search://my-docs/none.md",
    "file-search://my-docs/../secret.md",
    "file-search://my-docs/%2e%2e/secret.md",
    "file-search://my-docs//etc/passwd",
    "file-search://my-docs/.hidden.md",
    "file-search://my-docs/image.png",
    "file-search://other/tides.md",
    "file-search://my-docs/\udce9.md",
    "https://my-docs/tides.md",
    "file:///etc/passwd",
    "file-search://[x",
)


async def test_no_other_file_is_read(folder: Path, opened: Open, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    provider = await opened(folder)
    assert {url: await provider.read(url) for url in NOT_READ} == dict.fromkeys(NOT_READ)


async def test_a_file_that_became_a_link_is_not_read(
    folder: Path, opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("secret")
    provider = await opened(folder)
    await found(provider, "tides")
    (folder / "tides.md").unlink()
    (folder / "tides.md").symlink_to(tmp_path / "secret.md")
    assert await provider.read("file-search://my-docs/tides.md") is None


async def test_a_search_does_not_wait_for_the_index_of_an_earlier_start(
    folder: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(folder)
    await found(first, "tides")
    await first.stop()
    may_look = threading.Event()
    refresh = FolderIndex.refresh

    def wait_and_refresh(index: FolderIndex, is_stopped: Callable[[], bool]) -> None:
        may_look.wait(60)
        refresh(index, is_stopped)

    monkeypatch.setattr(FolderIndex, "refresh", wait_and_refresh)
    second = await opened(folder)
    assert await found(second, "tides") == ["file-search://my-docs/tides.md"]
    may_look.set()


async def test_changes_are_found(
    folder: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = await opened(folder)
    assert await found(provider, "tides")
    monkeypatch.setattr(files_module, "_FRESH_SECONDS", -1.0)
    (folder / "tides.md").unlink()
    (folder / "new.md").write_text("brand new")
    await found(provider, "x")  # starts another look
    assert provider._refreshing is not None
    await provider._refreshing
    assert await found(provider, "tides") == []
    assert await found(provider, "brand") == ["file-search://my-docs/new.md"]


async def test_a_search_after_a_failed_look_looks_again(
    folder: Path,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a secret")

    with monkeypatch.context() as patch:
        patch.setattr(FolderIndex, "refresh", fail)
        provider = await opened(folder)
        assert await found(provider, "tides") == []
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text
    monkeypatch.setattr(files_module, "_FRESH_SECONDS", -1.0)
    await found(provider, "x")  # starts another look
    await provider._refreshing
    assert await found(provider, "tides") == ["file-search://my-docs/tides.md"]


async def test_folders_of_the_same_name_have_different_urls(tmp_path: Path) -> None:
    providers = []
    for number in range(3):
        folder = tmp_path / str(number) / "docs"
        folder.mkdir(parents=True)
        (folder / "a.md").write_text(f"text {number}")
        providers.append(FilesProvider(ProviderOptions(str(folder))))
    chain = SearchChain(providers)
    await chain.start()
    urls = [url for provider in providers for url in await found(provider, "text")]
    assert urls == [f"file-search://{host}/a.md" for host in ("docs", "docs-2", "docs-3")]
    pages = [await chain.read(url) for url in urls]
    assert [page and page.body for page in pages] == [b"text 0", b"text 1", b"text 2"]
    await chain.stop()


async def test_an_index_without_a_cache_is_temporary(folder: Path, opened: Open) -> None:
    provider = await opened(folder, None)
    assert await found(provider, "tides")


async def test_a_cache_that_cannot_be_written_is_replaced(
    folder: Path, opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    provider = await opened(folder, str(tmp_path / "file"))
    assert await found(provider, "tides")


async def test_a_missing_folder_is_a_problem(tmp_path: Path) -> None:
    provider = FilesProvider(ProviderOptions(str(tmp_path / "none")))
    await provider.start()
    assert "is no folder" in (provider.problem or "")
    with pytest.raises(SearchError):
        await provider.search(SearchQuery("x"))
    await provider.stop()


async def test_the_own_documentation_is_the_default() -> None:
    provider = FilesProvider(ProviderOptions())
    await provider.start()
    assert provider.problem is None
    urls = await found(provider, "How do I deploy with PostgreSQL behind a load balancer?")
    assert "file-search://gpt-oss-server/deployment.md" in urls[:3]
    await provider.stop()


def test_the_documentation_of_a_wheel_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packaged, "_ROOT", tmp_path)
    page = tmp_path / "share" / "doc" / "gpt-oss-server" / "index.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Index")

    class Installed:
        def as_posix(self) -> str:
            return "../../../share/doc/gpt-oss-server/index.md"

        def locate(self) -> Path:
            return page

    monkeypatch.setattr(packaged, "files", lambda name: [Installed()])
    assert packaged.docs_folder() == page.parent
    monkeypatch.setattr(packaged, "files", lambda name: None)
    assert packaged.docs_folder() is None

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(packaged, "files", missing)
    assert packaged.docs_folder() is None


# The index itself


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Iterator[FolderIndex]:
    with closing(FolderIndex(folder, tmp_path / "index.sqlite3")) as made:
        yield made


def paths(index: FolderIndex, text: str) -> list[str]:
    return [hit.path for hit in index.search(text, 10)]


def test_an_index_is_complete_after_a_whole_refresh(index: FolderIndex) -> None:
    assert not index.is_complete
    index.refresh(lambda: True)
    assert not index.is_complete
    index.refresh()
    assert index.is_complete


def test_only_changed_content_is_indexed_again(index: FolderIndex, folder: Path) -> None:
    index.refresh()
    before = index._database.total_changes
    index.refresh()
    assert index._database.total_changes == before
    os.utime(folder / "tides.md", (1, 1))
    index.refresh()
    assert index._database.total_changes == before + 1
    (folder / "tides.md").write_text("ebb and flow")
    index.refresh()
    assert (paths(index, "spring"), paths(index, "ebb")) == ([], ["tides.md"])


def test_a_refresh_can_be_stopped(index: FolderIndex, folder: Path) -> None:
    index.refresh()
    (folder / "tides.md").unlink()
    index.refresh(lambda: True)
    assert paths(index, "tides") == ["tides.md"]


def test_large_and_unreadable_files_do_no_harm(index: FolderIndex, folder: Path) -> None:
    (folder / "large.md").write_bytes(b"elephant " * (1 << 20))
    (folder / "broken.pdf").write_bytes(b"%PDF nothing")
    index.refresh()
    assert paths(index, "elephant") == []
    assert paths(index, "broken") == ["broken.pdf"]


def test_a_document_is_found_once_by_its_best_section(index: FolderIndex, folder: Path) -> None:
    (folder / "a.md").write_text("# Boats\n\n" + "boat " * 50 + "\n\n## Oars\n\nAn oar is long.")
    (folder / "b.md").write_text("# Wood\n\nOf wood you make an oar, and much else of it too.")
    index.refresh()
    assert [(hit.path, hit.summary) for hit in index.search("oars", 10)] == [
        ("a.md", "## Oars An oar is long."),
        ("b.md", "# Wood Of wood you make an oar, and much else of it too."),
    ]


def test_a_document_that_is_gone_is_not_found_by_any_section(
    index: FolderIndex, folder: Path
) -> None:
    """Nor does it take sections of its neighbours with it."""
    for name in ("a.md", "b.md"):
        (folder / name).write_text("# Oars\n\n## Oars\n\n### Oars")
    (folder / "c.md").write_text("# Oars")
    index.refresh()
    (folder / "b.md").unlink()
    index.refresh()
    assert sorted(paths(index, "oars")) == ["a.md", "c.md"]


def test_a_changed_document_that_cannot_be_read_is_not_found(
    index: FolderIndex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.refresh()
    (folder / "tides.md").write_text("ebb and flow")
    open_real = os.open

    def refused(path: Path, flags: int) -> int:
        if path == folder / "tides.md":
            raise PermissionError
        return open_real(path, flags)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        index.refresh()
    assert paths(index, "spring") == []
    index.refresh()
    assert paths(index, "ebb") == ["tides.md"]


def test_two_processes_may_share_an_index(folder: Path, tmp_path: Path) -> None:
    first, second = (FolderIndex(folder, tmp_path / "shared.sqlite3") for _ in range(2))
    first.refresh()
    second.refresh()
    assert paths(first, "tides") == paths(second, "tides") == ["tides.md"]
    first.close()
    second.close()


def test_a_document_that_another_process_indexes_meanwhile_is_indexed_once(
    index: FolderIndex, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = index_module._content

    def read_after_another(path: Path) -> bytes | None:
        monkeypatch.setattr(index_module, "_content", content)
        with closing(FolderIndex(folder, tmp_path / "index.sqlite3")) as other:
            other.refresh()
        return content(path)

    monkeypatch.setattr(index_module, "_content", read_after_another)
    index.refresh()
    assert index.is_complete
    assert paths(index, "tide") == ["tides.md"]


def test_a_document_of_very_many_sections_leaves_others_theirs(
    index: FolderIndex, folder: Path
) -> None:
    (folder / "a.md").write_text("# a\n" * 70_000)
    (folder / "b.md").write_text("# Oars")
    index.refresh()
    assert paths(index, "oars") == ["b.md"]


def test_names_that_are_not_utf_8_are_left_out(index: FolderIndex, folder: Path) -> None:
    place = os.fsencode(folder)
    os.mkdir(os.path.join(place, b"caf\xe9"))
    for name in (b"caf\xe9.md", b"caf\xe9/a.md", b"z.md"):
        Path(os.fsdecode(os.path.join(place, name))).write_text("lobster")
    index.refresh()
    assert paths(index, "lobster") == ["z.md"]
    assert index.is_complete


def test_a_charset_without_a_meaning_is_ignored(index: FolderIndex, folder: Path) -> None:
    (folder / "a.html").write_text('<meta charset="undefined"><title>A</title><p>lobster')
    index.refresh()
    assert paths(index, "lobster") == ["a.html"]


@pytest.mark.parametrize("charset", ["unicode_escape", "raw_unicode_escape"])
def test_escapes_of_python_are_no_charset(index: FolderIndex, folder: Path, charset: str) -> None:
    (folder / "a.html").write_text(f'<meta charset="{charset}"><title>A</title><p>\\u0078yz')
    index.refresh()
    assert paths(index, "xyz") == []
    assert paths(index, "u0078yz") == ["a.html"]


def test_a_document_that_fails_is_indexed_by_its_name(
    index: FolderIndex, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(fetched: FetchedPage, *, source: bool) -> Page:
        if fetched.url == "tides.md":
            raise ValueError("a secret")
        return text_page(fetched, source=source)

    monkeypatch.setattr(page_process, "text_page", failing)
    index.refresh()
    assert paths(index, "tides") == ["tides.md"]
    assert paths(index, "spring") == []
    assert paths(index, "baltic") == ["sub/kiel.html"]
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_an_index_can_be_used_after_a_refresh_that_failed(
    index: FolderIndex, folder: Path, tmp_path: Path
) -> None:
    index.refresh()
    (folder / "tides.md").write_text("ebb and flow")
    index._database.execute(
        "CREATE TRIGGER full BEFORE INSERT ON files BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(sqlite3.IntegrityError):
        index.refresh()
    assert paths(index, "spring") == ["tides.md"]
    other = FolderIndex(folder, tmp_path / "index.sqlite3")
    other._database.execute("DROP TRIGGER full")
    index.refresh()
    assert paths(index, "ebb") == paths(other, "ebb") == ["tides.md"]
    other.close()


def test_large_html_is_found_by_its_text(index: FolderIndex, folder: Path) -> None:
    (folder / "a.html").write_text(f"<title>A</title>{'<p>word' * 2000}<p>lobster")
    index.refresh()
    assert [(hit.path, hit.title) for hit in index.search("lobster", 10)] == [("a.html", "A")]


def test_html_that_takes_too_long_is_indexed_by_its_name(
    index: FolderIndex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "PageProcesses", lambda: PageProcesses(0.5))
    (folder / "lobster.html").write_text(ENDLESS)
    index.refresh()
    assert [(h.path, h.title) for h in index.search("lobster", 10)] == [
        ("lobster.html", "lobster.html")
    ]
    assert index.is_complete


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.html", b"<p>lobster"), ("a.pdf", documents.pdf("lobster"))],
)
def test_a_refresh_can_be_stopped_while_a_document_is_converted(
    index: FolderIndex,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
) -> None:
    (folder / name).write_bytes(content)
    index.refresh()
    assert paths(index, "lobster") == [name]
    monkeypatch.setattr(index_module, "PageProcesses", lambda: PageProcesses(60.0))
    monkeypatch.setattr(pdf, "_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    (folder / name).write_text(ENDLESS)
    answers = iter([False, False])  # before the file, and when the conversion begins
    index.refresh(lambda: next(answers, True))
    assert paths(index, "lobster") == [name]


def test_a_search_reads_only_the_sections_that_it_shows(index: FolderIndex, folder: Path) -> None:
    (folder / "a.md").write_text("# Oars\n\noars, oars\n\n# Boats\n\n" + "boats with oars " * 20)
    index.refresh()
    # The section that is not the best one cannot be read.
    index._database.execute("DELETE FROM sections_content WHERE c1 = 'Boats'")
    assert [(hit.path, hit.summary) for hit in index.search("oars", 10)] == [
        ("a.md", "# Oars oars, oars")
    ]


def test_as_many_documents_are_found_as_asked_for(index: FolderIndex, folder: Path) -> None:
    for number in range(4):
        (folder / f"{number}.md").write_text(f"# A\n\n{'oar ' * (number + 1)}\n\n# B\n\noar")
    index.refresh()
    found = [hit.path for hit in index.search("oar", 10)]
    assert sorted(found) == ["0.md", "1.md", "2.md", "3.md"]
    assert [hit.path for hit in index.search("oar", 2)] == found[:2]
