"""Pages as the server's browser shows them: numbered lines of 80 characters, links with ids."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import TextWrapper
from urllib.parse import quote, unquote, urljoin, urlsplit

from harmony.tokenizer import encode

VIEW_TOKENS = 1024
_MATCH_LINES = 4
_MOST_MATCHES = 50
_WRAPPER = TextWrapper(80, expand_tabs=False, replace_whitespace=False, drop_whitespace=False)
_FILLER = TextWrapper(
    80,
    expand_tabs=False,
    replace_whitespace=False,
    drop_whitespace=False,
    break_on_hyphens=False,
)
_LONG_RUN = re.compile(r"\S{81}|\s{81}")
_LINK = re.compile(r"【\d+†([^†】]+)(?:†[^†】]+)?】")
_MARKDOWN_LINK = re.compile(r"(!?)\[([^\[\]\n]*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """A page. text: lines of any length; links: the URL of each link id."""

    url: str
    title: str
    text: str
    links: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """The text without the line of the URL and without links, as it is searched."""
        return without_links(self.text.split("\n", 2)[-1])


@dataclass(frozen=True, slots=True)
class Display:
    """A part of a page on the screen: its cursor, all lines of the page, the lines in view."""

    cursor: int
    page: Page
    lines: tuple[str, ...]
    start: int
    end: int

    @property
    def text(self) -> str:
        """The text of the tool's message."""
        address = f" ({unquote(self.page.url)})" if self.page.url else ""
        body = "\n".join(f"L{n}: {self.lines[n]}" for n in range(self.start, self.end))
        return (
            f"[{self.cursor}] {self.page.title}{address}\n"
            f"**viewing lines [{self.start} - {self.end - 1}] of {len(self.lines) - 1}**\n\n{body}"
        )


def wrap(text: str) -> list[str]:
    """The lines of a text, none longer than 80 characters."""
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= 80:
            lines.append(line)
        else:
            lines += (_FILLER if _LONG_RUN.search(line) else _WRAPPER).wrap(line)
    return lines


def show(cursor: int, page: Page, start: int = 0, count: int = 0) -> Display:
    """The view of `count` lines; of as many as a view's tokens have where it is 0."""
    lines = wrap(page.text)
    if count:
        return Display(cursor, page, tuple(lines), start, min(start + count, len(lines)))
    used, end = 0, start
    while end < len(lines) and used <= VIEW_TOKENS:
        used += len(encode(f"L{end}: {lines[end]}\n"))
        end += 1
    return Display(cursor, page, tuple(lines), start, end)


def without_links(text: str) -> str:
    """The text with the words of links only."""
    return _LINK.sub(r"\1", text)


def markdown_page(url: str, markdown: str) -> Page:
    """The page of a Markdown document, whose first heading is its title.

    Its own brackets of markers are replaced, as the server does.
    """
    ids: dict[str, int] = {}
    host = urlsplit(url).netloc

    def marker(match: re.Match[str]) -> str:
        if match[1]:
            return f"[Image: {match[2]}]"
        if match[3].startswith("#"):
            return match[2]
        scheme = urlsplit(url).scheme
        target = urljoin(url.replace(scheme, "http", 1), match[3])
        if "://" not in match[3]:
            target = target.replace("http", scheme, 1)
        number = ids.setdefault(target, len(ids))
        other = urlsplit(target).netloc
        return f"【{number}†{match[2]}】" if other == host else f"【{number}†{match[2]}†{other}】"

    markdown = markdown.replace("【", "〖").replace("】", "〗")
    parts = _FENCE.split(markdown)
    body = "".join(p if p.startswith("```") else _MARKDOWN_LINK.sub(marker, p) for p in parts)
    title = re.search(r"^#{1,2}\s+(.+)$", markdown, re.MULTILINE)
    return Page(url, title[1] if title else host, _with_url(url, body), tuple(ids))


def results_page(query: str, results: Sequence[tuple[Page, str]]) -> Page:
    """The page of search results: pages, each with the text that was found on it."""
    items = [
        f"  * 【{number}†{page.title}†{urlsplit(page.url).netloc}】 {' '.join(found.split())}"
        for number, (page, found) in enumerate(results)
    ]
    body = "# Search Results\n\n" + ("\n".join(items) or "No results.")
    return Page("", query, _with_url("", body), tuple(page.url for page, _ in results))


def find_page(page: Page, pattern: str) -> tuple[Page, list[int]]:
    """The page of what `browser.find` finds, and the lines of the matches."""
    plain = without_links("\n".join(wrap(page.text))).split("\n")
    found: list[int] = []
    number = 0
    while number < len(plain) and len(found) < _MOST_MATCHES:
        if pattern.lower() in plain[number].lower():
            found.append(number)
            number += _MATCH_LINES - 1
        number += 1
    texts = ("\n".join(plain[line : line + _MATCH_LINES]) for line in found)
    text = "\n\n".join(
        f"# 【{n}†match at L{line}】\n{text}"
        for n, (line, text) in enumerate(zip(found, texts, strict=True))
    )
    title = f"Find results for text: `{pattern}` in `{page.title}`"
    url = f"{page.url}/find?pattern={quote(pattern)}"
    return Page(url, title, text or f"No `find` results for pattern: `{pattern}`"), found


def _with_url(url: str, body: str) -> str:
    return "\nURL: " + unquote(url) + "\n" + body.strip("\n").rstrip()
