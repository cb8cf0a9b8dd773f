"""Rewrites citation markers in the model's answer to links, with the range of each link.

The model cites a line as `【6†L9-L11】`. The marker becomes `([domain](url))`. A space goes
before it where the text does not end in white space. Lists of markers, ranges with any dash,
and lists within one marker are read; markers of the same source that follow each other directly
become one link. A marker whose cursor is unknown is left out and counted. Brackets that are no
marker stay as they are.

Ranges are counted in Unicode code points of the rewritten text: `text[start:end]` in Python is the
link. The end is exclusive, and the range has no spaces.
Source: recorded streams of OpenAI's Responses API.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from adapters.base import TokenLogprobs
from server.replay.cited_text import MARKER
from server.tools.base import Citation, ToolSession

logger = logging.getLogger(__name__)

MOST_MARKER = 128
"""Characters of the longest marker. Longer text is never withheld."""

Resolve = Callable[[int, int | None], Citation | None]
"""The source of a cursor and a line; None if there is none."""

OPEN = "【"
"""The character that begins a marker."""
# What may become a marker once more text has arrived.
_PREFIX = re.compile(r"【(?:\s?(?:\d{1,6}(?:\s?(?:†[^【】\n]*)?)?)?)?\Z")
_PART = re.compile(r"(?:(\d{1,6})\s?†)?\s*(?:L?\s?(\d{1,7}))?")
_SEPARATOR = re.compile(r"[,;\u3001\uff0c\uff1b]|(?<=\d)\s+(?=\d{1,6}\s?†)")
# Characters that could end a link of Markdown, or what `server.replay` reads as one.
_NOT_IN_URL = re.compile(r"[()<>\\`\"【】\s\x00-\x1f\x7f]")
_NOT_IN_LABEL = re.compile(r"[\[\]<>\\`【】\s\x00-\x1f\x7f]")
_NO_LABEL = "source"


@dataclass(frozen=True, slots=True)
class UrlCitation:
    """A link of the rewritten text. start, end: its range in code points, end exclusive."""

    start: int
    end: int
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class CitedText:
    """A piece of the rewritten text. A piece with a citation is exactly that link.

    logprobs: those of the sampled tokens since the piece before.
    """

    text: str
    citation: UrlCitation | None = None
    logprobs: Sequence[TokenLogprobs] = ()


def rewriters(
    sessions: Sequence[ToolSession], *, json: bool
) -> Callable[[], "CitationRewriter"] | None:
    """Makes the rewriter of each message of an answer; None if no tool of its is cited.

    sessions: those of the answer's hosted tools. json: whether the answer is JSON by a schema, in
    which links would be wrong.
    """
    citing = [session for session in sessions if session.declaration.cites]
    if not citing:
        return None

    def resolve(cursor: int, line: int | None) -> Citation | None:
        found = (session.cite(cursor, line) for session in citing)
        return next((citation for citation in found if citation is not None), None)

    return lambda: CitationRewriter(resolve, annotates=not json)


def log_dropped(request_id: str, dropped: int) -> None:
    """Log how many markers of an answer had no source, if there are any."""
    if dropped:
        logger.info("request %s: %d citation markers have no source", request_id, dropped)


def url_fields(citation: UrlCitation) -> dict[str, Any]:
    """The fields of an annotation `url_citation`, in OpenAI's names."""
    return {
        "start_index": citation.start,
        "end_index": citation.end,
        "title": citation.title,
        "url": citation.url,
    }


class CitationRewriter:
    """Rewrites a text that arrives in pieces. The result does not depend on the pieces.

    resolve: the source of a cursor. annotates: False leaves out all markers, for answers that are
    JSON. dropped: how many markers had no known source.
    """

    __slots__ = (
        *("_annotates", "_before", "_last", "_length", "_logprobs", "_pending", "_plain_texts"),
        *("_resolve", "dropped"),
    )

    def __init__(self, resolve: Resolve, *, annotates: bool = True) -> None:
        self._resolve = resolve
        self._annotates = annotates
        self._before = ""  # the last character
        self._length = 0
        self._last: str | None = None  # the URL of a link that the text ends in
        self.dropped = 0
        self._plain_texts: list[str] = []  # those that no `push` has counted yet
        self._pending = ""  # withheld text
        self._logprobs: list[TokenLogprobs] = []  # those that no piece had yet

    def add_plain(self, text: str) -> bool:
        """Add text that needs no rewriting; False, without effect, if `push` has to read it.

        That is the case if a marker begins in the text, or if text or logprobs are withheld. Nearly
        all text is plain, to which this adds one append.
        """
        if OPEN in text or self._pending or self._logprobs:
            return False
        self._plain_texts.append(text)
        return True

    def push(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> list[CitedText]:
        """The pieces that are complete with more text. logprobs: those of its tokens."""
        self._logprobs += logprobs
        return self._with_logprobs(self._rewrite(text))

    def finish(self) -> list[CitedText]:
        """The withheld text, which is no marker: the answer ended within it.

        A last piece without text has the logprobs that no other piece had.
        """
        text, self._pending = self._pending, ""
        pieces = self._plain(text)
        if self._logprobs and not pieces:
            pieces = [CitedText("")]
        return self._with_logprobs(pieces)

    def _with_logprobs(self, pieces: list[CitedText]) -> list[CitedText]:
        if not pieces:
            return []
        first, *others = pieces
        logprobs, self._logprobs = tuple(self._logprobs), []
        return [replace(first, logprobs=logprobs), *others]

    def _rewrite(self, text: str) -> list[CitedText]:
        self._count_plain()
        text = self._pending + text
        self._pending = ""
        done: list[CitedText] = []
        place = 0
        while (start := text.find(OPEN, place)) >= 0:
            done += self._plain(text[place:start])
            place = self._bracket(text, start, done)
            if place < 0:
                self._pending = text[start:]
                return done
        return done + self._plain(text[place:])

    def _count_plain(self) -> None:
        """Note the length and the end of the text since the last call."""
        self._plain("".join(self._plain_texts))
        self._plain_texts.clear()

    def _bracket(self, text: str, start: int, done: list[CitedText]) -> int:
        """Read what begins with a bracket; the place after it, or -1 where more text is needed."""
        window = text[start : start + MOST_MARKER]
        marker = MARKER.match(window)
        if marker is not None:
            done += self._cite(marker[0])
            return start + marker.end()
        if len(window) < MOST_MARKER and _PREFIX.match(window):
            return -1
        done += self._plain(OPEN)
        return start + 1

    def _plain(self, text: str) -> list[CitedText]:
        if not text:
            return []
        self._before = text[-1]
        self._length += len(text)
        self._last = None
        return [CitedText(text)]

    def _cite(self, marker: str) -> Iterator[CitedText]:
        if not self._annotates:
            return
        found = [self._resolve(cursor, line) for cursor, line in _references(marker)]
        sources = [source for source in found if source is not None]
        if not sources:
            self.dropped += 1
        for source in sources:
            if source.url == self._last:
                continue
            if self._before and not self._before.isspace():
                yield from self._plain(" ")
            yield self._link(source)

    def _link(self, source: Citation) -> CitedText:
        text = f"([{_label(source.url)}]({_NOT_IN_URL.sub(_escaped, source.url)}))"
        start = self._length
        self._plain(text)
        self._last = source.url
        return CitedText(text, UrlCitation(start, start + len(text), source.url, source.title))


def _references(marker: str) -> Iterator[tuple[int, int | None]]:
    """The cursors and first lines of a marker, each cursor once; `【6†L1, L9; 7†L2】` has two."""
    cursor = -1
    seen: set[int] = set()
    for part in _SEPARATOR.split(marker[1:-1].strip()):
        match = _PART.match(part.strip())
        if match is not None and match[1] is not None:
            cursor = int(match[1])
        if cursor >= 0 and cursor not in seen:
            seen.add(cursor)
            yield cursor, int(match[2]) if match is not None and match[2] else None


def _escaped(character: re.Match[str]) -> str:
    return quote(character[0])


def _label(url: str) -> str:
    """The words of the link: the host without `www.`, or the name of a document."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _NO_LABEL
    host = (parts.hostname or "").removeprefix("www.")
    if parts.scheme not in ("http", "https"):
        host = unquote(parts.path).rpartition("/")[2] or host
    return _NOT_IN_LABEL.sub("_", host) or _NO_LABEL
