"""Makes pages of documents: HTML, Markdown, JSON, other text, and PDF."""

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from server.tools.browser.charset import decode
from server.tools.browser.html import html_page
from server.tools.browser.page import Links, Page, inert, make_page
from server.tools.browser.pdf import PdfText
from server.tools.fetch.pages import HTML_TYPES, FetchedPage

MARKDOWN_TYPES = frozenset({"application/markdown", "text/markdown", "text/x-markdown"})
_JSON_TYPES = frozenset({"application/json", "application/ld+json", "text/json"})
_HEAD = 1 << 16
"""Characters in which the title of a Markdown text is looked for."""
_MARKDOWN_LINK = re.compile(
    r"(!?)\[([^\[\]\n]{0,500})\]\(<?([^()\s<>]{1,2000})>?(?:\s+\"[^\"\n]*\")?\)"
)
# Its end is stripped afterwards: a pattern would try each of its spaces as the last one.
_MARKDOWN_TITLE = re.compile(r"^#{1,2}\s+(\S.*)", re.MULTILINE)
_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
_INDENTING = json.JSONEncoder(ensure_ascii=False, indent=2)
_MOST_GROWTH = 4
"""JSON is indented where it becomes at most so many times as long, plus `_GROWTH_OF_SMALL`."""
_GROWTH_OF_SMALL = 4096
_MOST_INDENTED = 8 << 20
"""Characters of JSON that is indented."""
_MOST_VALUES = 50_000
"""Values of JSON that is indented, about: more take too long."""


def text_page(fetched: FetchedPage, *, source: bool = False) -> Page:
    """The page of any document but PDF.

    source: show the text as it was received, without conversion.
    """
    text = _text(fetched)
    url, kind = fetched.url, fetched.media_type
    if source:
        return make_page(url, f"Source of {name_of(url)}", inert(text))
    if kind in HTML_TYPES:
        return html_page(text, url)
    if kind in MARKDOWN_TYPES:
        return markdown_page(text, url)
    if kind in _JSON_TYPES:
        text = _indented(text)
    return make_page(url, name_of(url), inert(text))


def _text(fetched: FetchedPage) -> str:
    return decode(fetched.body, fetched.charset).replace("\r\n", "\n").replace("\r", "\n")


def markdown_page(text: str, url: str) -> Page:
    """The page of a Markdown text, whose links become links of the page, except in code."""
    links = Links(url)

    def marker(match: re.Match[str]) -> str:
        if match[1]:
            return f"[Image: {match[2]}]"
        return links.marker(match[3], match[2])

    parts = _FENCE.split(inert(text))
    body = "".join(
        part if part.startswith("```") else _MARKDOWN_LINK.sub(marker, part) for part in parts
    )
    return make_page(url, title_of_markdown(text) or name_of(url), body, links.urls)


def title_of_markdown(text: str) -> str:
    """The first heading, "" if there is none."""
    title = _MARKDOWN_TITLE.search(text[:_HEAD])
    return title[1].rstrip().rstrip("#").rstrip() if title else ""


def name_of(url: str) -> str:
    """The last part of a URL's path, or its host."""
    parts = urlsplit(url)
    return unquote(PurePosixPath(parts.path).name) or parts.netloc


def _indented(text: str) -> str:
    """JSON with one value to a line; the text itself if it is no JSON, or too much of it."""
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        return text
    # Deep in a page, each value begins with more spaces than the page may have characters.
    most = min(_MOST_GROWTH * len(text) + _GROWTH_OF_SMALL, _MOST_INDENTED)
    try:
        return _joined(_INDENTING.iterencode(json.loads(text)), most) or text
    except (ValueError, RecursionError):
        return text


def _joined(chunks: Iterable[str], most: int) -> str:
    """The chunks as one text, "" if it had more than `most` characters."""
    joined: list[str] = []
    for chunk in chunks:
        most -= len(chunk)
        if most < 0:
            return ""
        joined.append(chunk)
    return "".join(joined)


def pdf_page(url: str, document: PdfText) -> Page:
    """The page of the text of a PDF file."""
    body = "\n\n".join(
        f"# Page {number}\n\n{text}" for number, text in enumerate(document.pages, 1)
    )
    return make_page(url, document.title or name_of(url), inert(body))
