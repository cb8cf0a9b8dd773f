"""Documents of other kinds become pages: Markdown, JSON, text, PDF; and their charsets."""

import asyncio
import sys
from asyncio.subprocess import Process
from types import SimpleNamespace
from typing import Any

import pytest

from server.tools.browser import documents as documents_module
from server.tools.browser import page as page_module
from server.tools.browser import pdf
from server.tools.browser.charset import decode, is_slow
from server.tools.browser.documents import text_page, title_of_markdown
from server.tools.browser.page import Page, page_from_json, without_controls
from server.tools.browser.page_process import PageProcesses
from server.tools.fetch.errors import UnsupportedBody
from server.tools.fetch.pages import FetchedPage
from tests.server.tools.browser import documents

URL = "https://site.example/dir/notes%20a.md"


async def page_of(body: str | bytes, kind: str, url: str = URL, *, source: bool = False) -> Page:
    data = body if isinstance(body, bytes) else body.encode()
    processes = PageProcesses()
    try:
        return await processes.convert(FetchedPage(url, kind, None, data), source=source)
    finally:
        await processes.close()


def text_of(page: Page) -> str:
    return page.text.split("\n", 2)[2]


async def test_markdown_keeps_its_text_and_numbers_its_links() -> None:
    page = await page_of(
        "Intro\r\n\n# The title #\n\nSee [a](other.md), ![pic](x.png) and "
        '[b](https://b.example/x "t").\n\n```\n[code](not.md)\n```\n【x】',
        "text/markdown",
    )
    assert page.title == "The title"
    assert text_of(page) == (
        "Intro\n\n# The title #\n\nSee 【0†a】, [Image: pic] and 【1†b†b.example】.\n\n"
        "```\n[code](not.md)\n```\n〖x〗"
    )
    assert page.links == ("https://site.example/dir/other.md", "https://b.example/x")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# a", "a"),
        ("text\n## a  b", "a  b"),
        ("### a\n# b", "b"),
        ("# a ##", "a"),
        ("# a #\t ", "a"),
        ("# a # b #", "a # b"),
        ("# #1 of 2", "#1 of 2"),
        ("#a\n# ", ""),
        ("", ""),
    ],
)
def test_the_first_heading_is_the_title(text: str, title: str) -> None:
    assert title_of_markdown(text) == title


@pytest.mark.parametrize("end", ["x", "#x", "# x"])
def test_a_heading_of_spaces_and_hashes_is_read_in_linear_time(end: str) -> None:
    filling = end[0].replace("x", " ") * 65_000

    assert title_of_markdown(f"# a{filling}{end}") == f"a{filling}{end}"


async def test_links_between_local_documents_lead_to_documents() -> None:
    page = await page_of(
        "[a](../b.md#c) [w](https://w.example)", "text/markdown", "file-search://docs/x/a.md"
    )
    assert page.links == ("file-search://docs/b.md#c", "https://w.example")
    assert page.title == "a.md"


async def test_json_is_indented() -> None:
    page = await page_of('{"a": [1, "é【"]}', "application/json")
    assert text_of(page) == '{\n  "a": [\n    1,\n    "é〖"\n  ]\n}'


async def test_small_json_is_indented_though_it_is_nested() -> None:
    page = await page_of("[" * 20 + "]" * 20, "application/json")

    assert text_of(page).split("\n")[-2:] == ["  ]", "]"]


@pytest.mark.parametrize("text", ['{"key":1},', "[1,2],"])
async def test_flat_json_is_indented_however_long_it_is(text: str) -> None:
    page = await page_of(f"[{text * 10_000}0]", "application/json")

    assert text_of(page).endswith(",\n  0\n]")


async def test_json_that_indenting_would_blow_up_is_shown_as_it_is() -> None:
    body = "[" * 900 + "1," * 5000 + "1" + "]" * 900

    assert text_of(await page_of(body, "application/json")) == body


@pytest.mark.parametrize("body", ["{broken", "[" * 100_000])
async def test_broken_json_is_shown_as_it_is(body: str) -> None:
    assert text_of(await page_of(body, "application/json")) == body


async def test_other_text_is_shown_as_it_is() -> None:
    page = await page_of("a\r\nb\rc\n<x>", "text/plain")
    assert (page.title, text_of(page)) == ("notes a.md", "a\nb\nc\n<x>")


async def test_the_source_of_a_page_is_shown() -> None:
    page = await page_of("<p>a【</p>", "text/html", source=True)
    assert text_of(page) == "<p>a〖</p>"
    assert page.title == "Source of notes a.md"


async def test_a_pdf_file_has_its_pages() -> None:
    page = await page_of(documents.pdf("Hello", "World", title="The file"), "application/pdf")
    assert page.title == "The file"
    assert text_of(page) == "# Page 1\n\nHello\n\n# Page 2\n\nWorld"
    untitled = await page_of(documents.pdf("Hello"), "application/pdf")
    assert untitled.title == "notes a.md"


@pytest.mark.parametrize("body", [b"", b"%PDF-1.7 nothing", b"\0" * 1000])
async def test_a_damaged_pdf_file_is_an_error(body: bytes) -> None:
    with pytest.raises(UnsupportedBody):
        await page_of(body, "application/pdf")


async def test_a_pdf_file_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(pdf.UnreadablePdf, match="too long"):
        await pdf.extract(documents.pdf("x"), seconds=0.001)


async def test_a_pdf_file_is_not_read_where_no_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pdf, "_COMMAND", ("/no/such/program",))
    with pytest.raises(UnsupportedBody, match="cannot be read"):
        await page_of(documents.pdf("x"), "application/pdf")


async def test_the_process_ends_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    started: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
    start = asyncio.create_subprocess_exec

    async def noted_start(*command: str, **options: Any) -> Process:
        started.set_result(await start(*command, **options))
        return started.result()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted_start)
    monkeypatch.setattr(pdf, "_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    task = asyncio.create_task(pdf.extract(documents.pdf("x")))
    waits: list[asyncio.Future[Any]] = [task, started]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert started.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started.result().returncode is not None


@pytest.mark.parametrize("value", ["[]", "{}", "1"])
def test_json_of_very_many_values_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    text = f"[{', '.join([value] * 50_001)}]"
    monkeypatch.setattr(documents_module, "json", None)
    page = text_page(FetchedPage(URL, "application/json", None, text.encode()))
    assert text_of(page) == text


def test_no_more_of_a_pdf_file_is_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "_MOST_CHARACTERS", 8)
    monkeypatch.setattr(pdf, "_MOST_TITLE", 3)
    found = pdf.read(documents.pdf("Hello", "World", "end", title="Title"))
    assert found == {"title": "Tit", "pages": ["Hello", "Wor"]}


def test_the_text_of_a_pdf_file_is_read() -> None:
    assert pdf.read(documents.pdf("Hello", title="T")) == {"title": "T", "pages": ["Hello"]}


def test_controls_are_removed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread runs during one substitution."""
    lengths: list[int] = []
    pattern = page_module._CONTROLS

    def sub(replacement: str, text: str) -> str:
        lengths.append(len(text))
        return pattern.sub(replacement, text)

    monkeypatch.setattr(page_module, "_CONTROLS", SimpleNamespace(sub=sub))
    assert without_controls("\1ab\u200b" * 50_000) == "ab" * 50_000
    assert max(lengths) <= page_module._SLICE


def test_a_page_survives_json() -> None:
    page = Page("u", "t", "x", ("a", "b"))
    assert page_from_json(page.to_json()) == page


@pytest.mark.parametrize(
    ("body", "declared", "text"),
    [
        ("é".encode(), "utf-8", "é"),
        ("é".encode("latin-1"), "ISO-8859-1", "é"),
        (b"\x93x\x94", "iso-8859-1", "“x”"),
        ("日本".encode("shift_jis"), "x-sjis", "日本"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("中文".encode("gbk"), "gb2312", "中文"),
        ("é".encode("utf-8-sig"), "latin-1", "é"),
        ("é".encode("utf-16"), None, "é"),
        ("\ufeffé".encode("utf-16-be"), None, "é"),
        (b'<meta charset="windows-1251">\xef', None, '<meta charset="windows-1251">п'),
        (
            b"<meta http-equiv=x content='text/html; charset=koi8-r'>\xd0",
            None,
            "<meta http-equiv=x content='text/html; charset=koi8-r'>п",
        ),
        (
            b"<?xml version='1.0' encoding='latin-1'?>\xe9",
            None,
            "<?xml version='1.0' encoding='latin-1'?>é",
        ),
        ("é".encode(), "no-such-charset", "é"),
        ("é".encode(), "zip", "é"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"a\xff", "utf-8", "a\ufffd"),
        ("é".encode(), None, "é"),
        (b"x" * 20_000 + b"\xff", None, "x" * 20_000 + "\ufffd"),
        (b"", None, ""),
    ],
)
def test_charsets(body: bytes, declared: str | None, text: str) -> None:
    assert decode(body, declared) == text


def test_a_hostile_meta_element_is_read_in_linear_time() -> None:
    body = b"<meta" * 270 + b" charset=" + b" " * 2700 + b">"

    assert decode(body, None) == body.decode()


def test_a_charset_is_detected() -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20
    assert decode(text.encode("windows-1251"), None) == text


@pytest.mark.parametrize(
    ("body", "declared", "slow"),
    [
        (b"abc", None, False),
        ("é".encode(), None, False),
        (b"\xe9", "latin-1", False),
        (b'<meta charset="windows-1251">\xef', None, False),
        ("é".encode("utf-16"), None, False),
        (b"\xe9", "no-such-charset", True),
        (b"\xe9", None, True),
        # That far behind, nothing is detected.
        (b"x" * 20_000 + b"\xff", None, False),
    ],
)
def test_detection_is_slow(body: bytes, declared: str | None, slow: bool) -> None:
    assert is_slow(body, declared) is slow
