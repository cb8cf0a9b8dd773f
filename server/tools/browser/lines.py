"""The display of a page: lines of 80 characters with numbers, views, and text found in them.

Source: the browser of gpt-oss's reference implementation, whose output the model was trained on.
No other thread runs during one call of a regular expression or of `split`. A page may be long, so
that each call gets a part of it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harmony.tokenizer import encode
from server.tools.browser.page import Page, shown_url

WIDTH = 80
VIEW_TOKENS = 1024
MOST_MATCHES = 50
MATCH_LINES = 4
SLICE = 1 << 14
"""Characters that one call reads: for the slowest, up to two milliseconds."""

# A line ends where a word or white space ends, or after a hyphen within a word.
_PIECE = re.compile(
    rf"(?s:.{{1,{WIDTH}}})(?:(?<=\s)(?=\S)|(?<=\S)(?=\s)|(?<=\w[^\W\d_]-)(?=\w*[^\W\d_])|\Z)"
    rf"|(?s:.{{{WIDTH}}})"
)
_RUN = re.compile(r"\S+|\s+")
_LONG_RUN = re.compile(rf"\S{{{WIDTH + 1}}}|\s{{{WIDTH + 1}}}")
_LINK = re.compile(r"【\d+†([^†】]+)(?:†[^†】]+)?】")


@dataclass(frozen=True, slots=True)
class Match:
    """A place where a pattern was found: the line, and the text shown for it."""

    line: int
    text: str


def wrap(text: str) -> list[str]:
    """The lines of a text, none longer than `WIDTH`. White space is kept."""
    lines: list[str] = []
    for line in _lines(text):
        if len(line) <= WIDTH:
            lines.append(line)
        else:
            lines += _at_spaces(line) or _pieces(line)
    return lines


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, as `split` gives them."""
    start = 0
    while (end := text.find("\n", start + SLICE)) >= 0:
        yield from text[start:end].split("\n")
        start = end + 1
    yield from text[start:].split("\n")


def _at_spaces(line: str) -> list[str]:
    """The lines of a text where each ends at a single space, [] if one may end elsewhere.

    It takes a third of the time of `_pieces`, with the same result.
    """
    if not line.isprintable():  # it may have other white space
        return []
    lines: list[str] = []
    start = 0
    while start + WIDTH < len(line):
        end = limit = start + WIDTH
        if line[limit] != " ":
            end = line.rfind(" ", start, limit) + 1
            if end == 0 or line.find("-", end, limit) >= 0:
                return []
        elif line[limit - 1] == " ":
            return []
        lines.append(line[start:end])
        start = end
    lines.append(line[start:])
    return lines


def _pieces(line: str) -> Iterable[str]:
    """The lines of any text."""
    if _has_long_run(line):
        return _filled(line)
    return (piece[0] for piece in _PIECE.finditer(line))


def _has_long_run(line: str) -> bool:
    starts = range(0, len(line), SLICE)
    return any(_LONG_RUN.search(line, start, start + SLICE + WIDTH) for start in starts)


def _filled(line: str) -> Iterator[str]:
    """The lines of a text with a word that is longer than a line: it goes on where there is room.

    The time is linear in the text.
    """
    current = ""
    for match in _RUN.finditer(line):
        run, place = match[0], 0
        if len(current) + len(run) > WIDTH >= len(run):
            yield current
            current = ""
        while len(current) + len(run) - place > WIDTH:
            end = place + WIDTH - len(current)
            yield current + run[place:end]
            current, place = "", end
        current += run[place:]
    if current:
        yield current


def view_end(lines: Sequence[str], start: int, tokens: int = VIEW_TOKENS) -> int:
    """The line after the last one of a view of so many tokens, which that line may exceed."""
    used = 0
    for number in range(start, len(lines)):
        used += len(encode(f"L{number}: {lines[number]}\n"))
        if used > tokens:
            return number + 1
    return len(lines)


def display(cursor: int, page: Page, lines: Sequence[str], start: int, end: int) -> str:
    """The text of a tool message that shows the lines from `start` up to `end` of a page."""
    address = f" ({shown_url(page.url)})" if page.url else ""
    body = "\n".join(f"L{number}: {lines[number]}" for number in range(start, end))
    return (
        f"[{cursor}] {page.title}{address}\n"
        f"**viewing lines [{start} - {end - 1}] of {len(lines) - 1}**\n\n{body}"
    )


def find(lines: Sequence[str], pattern: str) -> list[Match]:
    """The places where the pattern stands in the text of the lines, case ignored."""
    plain = list(_lines(without_links("\n".join(lines))))
    wanted = pattern.lower()
    matches: list[Match] = []
    number = 0
    while number < len(plain) and len(matches) < MOST_MATCHES:
        if wanted in plain[number].lower():
            text = "\n".join(plain[number : number + MATCH_LINES])
            matches.append(Match(number, text))
            number += MATCH_LINES
        else:
            number += 1
    return matches


def without_links(text: str) -> str:
    """The text with the words of links only. The number of lines stays."""
    return _LINK.sub(
        lambda match: match[1] + "\n" * (match[0].count("\n") - match[1].count("\n")), text
    )


def link_at(lines: Sequence[str], number: int) -> tuple[int, int] | None:
    """The last link that begins in a line or before it: its id and line; None if there is none."""
    for line in reversed(range(min(number + 1, len(lines)))):
        ids = re.findall(r"【(\d+)†", lines[line])
        if ids:
            return int(ids[-1]), line
    return None
