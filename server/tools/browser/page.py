"""Pages as the model reads them: text with numbered links, without what could break the display.

A page's own brackets `【】` are replaced, so that no page contains a link or a citation marker of
its own. Control characters are removed, so that a page cannot begin a line that it was not given.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

FILE_SCHEME = "file-search"
"""The scheme of pages that a search provider has, and no web server."""

MOST_TITLE = 300
MOST_LINKS = 5000
MOST_URL = 8192
"""Characters of a link's URL. Longer ones cannot be opened."""
MOST_URLS = 2 << 20
"""Characters of all URLs of a page: a long base would be repeated in each of them."""
MOST_TEXT = 8 << 20
"""Characters of a page's text: short lines in deep lists become many times as long."""
_MOST_SHOWN_URL = 1024
_SLICE = 1 << 16
"""Characters of one substitution, up to four milliseconds in which no other thread runs."""
_NOT_OPENED = ("#", "javascript:", "mailto:", "data:", "tel:")
_DOMAIN = re.compile(r"(?:[\w.\-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?")
_SIMPLE_PATH = re.compile(r"[\w\-~%][\w\-.~%/]*(?:[?#]\S*)?")
_CONTROLS = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
    "|[\ud800-\udfff]|[\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page. text: lines of any length; links: the URL of each link id."""

    url: str
    title: str
    text: str
    links: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """The characters of its text and its links."""
        return len(self.text) + sum(map(len, self.links))

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        return self.characters + len(self.text) + 1024

    def to_json(self) -> dict[str, Any]:
        """The page as JSON."""
        links = list(self.links)
        return {"url": self.url, "title": self.title, "text": self.text, "links": links}


def page_from_json(data: Mapping[str, Any]) -> Page:
    """The page that `to_json` wrote."""
    return Page(data["url"], data["title"], data["text"], tuple(data["links"]))


class Links:
    """Numbers the links of a page, in the order in which they appear; equal URLs share an id."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        self._base = base
        self._domain = parts.netloc
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._folder = self._origin + (parts.path.rpartition("/")[0] or "") + "/"
        self._is_named = _DOMAIN.fullmatch(self._domain) is not None
        self._ids: dict[str, int] = {}
        self._left = MOST_URLS

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs by id."""
        return tuple(self._ids)

    def marker(self, href: str, text: str) -> str:
        """`【id†text】`, with `†domain` for another domain; the text where it is no link.

        It is none either where the page has too many links, or too long ones.
        """
        if "†" in text:
            text = text.replace("†", "‡")
        if not text or not href:
            return text
        if href[0] == "/" and href[1:2] != "/" and href.isprintable():  # the usual link
            url, domain = self._origin + href.rstrip(), self._domain
        elif href.startswith(_NOT_OPENED):
            return text
        else:
            url = self._absolute(href.strip())
            domain = url.split("://", 1)[1].split("/", 1)[0].split("?", 1)[0] if url else ""
        number = self._ids.get(url)
        if number is None:
            number = len(self._ids)
            if number >= MOST_LINKS or len(url) > min(MOST_URL, self._left):
                return text
            is_named = self._is_named if domain == self._domain else _DOMAIN.fullmatch(domain)
            if not is_named:
                return text
            self._ids[url] = number
            self._left -= len(url)
        return f"【{number}†{text}】" if domain == self._domain else f"【{number}†{text}†{domain}】"

    def _absolute(self, href: str) -> str:
        """The URL that the link leads to, "" for another scheme or an invalid one."""
        if any(character in href for character in "\n\r\t"):
            href = re.sub(r"[\n\r\t]", "", href)
        if href.startswith(("http://", "https://")):
            return href
        if href.startswith("/") and not href.startswith("//"):
            return self._origin + href
        if _SIMPLE_PATH.fullmatch(href) and ".." not in href:  # urljoin takes ten times as long
            return self._folder + href
        return join(self._base, href)


def join(base: str, href: str) -> str:
    """The absolute URL of a link, "" for a scheme that cannot be opened or an invalid URL."""
    is_file = base.startswith(f"{FILE_SCHEME}://")
    try:
        # urljoin knows no relative URLs of other schemes.
        url = urljoin(base.replace(FILE_SCHEME, "http", 1) if is_file else base, href)
    except ValueError:
        return ""
    if is_file and urlsplit(href).scheme == "" and not href.startswith("//"):
        url = url.replace("http", FILE_SCHEME, 1)
    return url if url.startswith(("http://", "https://", f"{FILE_SCHEME}://")) else ""


def inert(text: str) -> str:
    """Text of a page without brackets of markers. Must precede the insertion of markers."""
    return text.replace("【", "〖").replace("】", "〗")


def without_controls(text: str) -> str:
    """Text without invisible and control characters, except line breaks and tabs."""
    if text.replace("\n", "").isprintable():  # half the time; none of them is printable
        return text
    starts = range(0, len(text), _SLICE)
    return "".join(_CONTROLS.sub("", text[start : start + _SLICE]) for start in starts)


def one_line(text: str, most: int = MOST_TITLE) -> str:
    """A short text, such as a title, on one line."""
    line = " ".join(inert(without_controls(text[: 4 * most])).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def shown_url(url: str) -> str:
    """The URL as the display shows it: readable, at most 1,024 characters."""
    readable = unquote(url)
    if not readable.isprintable() or readable != inert(readable):
        readable = url
    return readable if len(readable) <= _MOST_SHOWN_URL else f"{readable[: _MOST_SHOWN_URL - 3]}..."


def make_page(url: str, title: str, body: str, links: Sequence[str] = ()) -> Page:
    """A page whose text begins with its URL.

    body: text that went through `inert`; what is beyond `MOST_TEXT` is cut off.
    """
    title = one_line(title) or urlsplit(url).netloc or url
    text = f"\nURL: {shown_url(url)}\n{without_controls(body[:MOST_TEXT]).strip(chr(10))}"
    return Page(url, title, text.rstrip(), tuple(links))
