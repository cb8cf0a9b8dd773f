"""Converts HTML to the text of a page, in the form that the model was trained on.

Headings begin with `#`, items of lists with `*`; ` | ` separates the cells of a row. Links are
`【id†text】`, images `[Image n: alt]`, superscripts `^{x}`, subscripts `_{x}`. What a browser
does not show is left out: scripts, styles, templates, elements that attributes or inline styles
hide. Rules of style sheets are not known here.

selectolax parses the page and writes it as HTML again. That is read in one pass, which takes less
time than a visit to each node.
"""

import re
from collections.abc import Callable, Iterator
from itertools import count

from selectolax.lexbor import LexborHTMLParser, LexborNode

from server.tools.browser.normal_html import attribute, normal_html, parts, unescaped
from server.tools.browser.page import (
    MOST_URL,
    Links,
    Page,
    join,
    make_page,
    one_line,
    without_controls,
)

_MOST_INDENT = 20
"""Lists and quotes that are nested deeper are not indented further."""

_BLOCKS = """
address article aside body caption center details dialog dir div dl fieldset figcaption figure
footer form header hgroup html main nav p search section summary
"""
_CLOSE = "dd dt legend tbody tfoot thead"
"""Blocks without an empty line around them."""
_INLINE = """
abbr b bdi bdo cite code del em font i ins kbd label mark nobr output q s samp small span strong
time tt u var wbr
"""
_HIDDEN = """
audio canvas colgroup datalist frameset head map noscript object select textarea title
video
"""
"""Elements that are not shown, and whose content the parser writes as tags and text."""
_VOID = "area base col embed frame input link meta param source track"
_CELL_END = " | "
_LAYOUT = "td table, td ul, td ol, td pre, td h1, td h2, td h3, td h4, td blockquote, td form"
_LAYOUT_TAG = re.compile("<(?:[uo]l|pre|h[1-4]|blockquote|form)[ >]")
_SIMPLE = re.compile(r"[\w\-+\N{MINUS SIGN}]+")
_ZERO = r"(?:0+(?:\.0+)?|\.0+)"
_HIDING_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    rf"|opacity\s*:\s*{_ZERO}\s*(?:;|!|$)"
    rf"|font-size\s*:\s*{_ZERO}(?:px|pt|r?em|%|vw|vh)?\s*(?:;|!|$)"
    r"|(?:text-indent|left|top)\s*:\s*-\d{4,}",
    re.IGNORECASE,
)


def html_page(html: str, url: str) -> Page:
    """The page of an HTML text.

    The time is linear in the text, except that of the parser for elements that are nested deeply.
    """
    parser = LexborHTMLParser(html)
    head = parser.head
    base = head.css_first("base[href]", None, strict=False) if head is not None else None
    href = "" if base is None else base.attributes.get("href") or ""
    title = head.css_first("title", None, strict=False) if head is not None else None
    name = title.text() if title is not None else ""
    found = join(url, href) if len(href) <= MOST_URL else ""
    links = Links(found or url)
    body = parser.body
    text = _text(body, html, links) if body is not None else ""
    return make_page(url, name, text, links.urls)


def plain(html: str) -> str:
    """The text of a fragment, such as a search result's summary with emphasis, on one line."""
    html = without_controls(html)
    if "<" not in html and "&" not in html:
        return one_line(html, len(html) + 1)
    parser = LexborHTMLParser(html)
    text = parser.body.text(separator="") if parser.body is not None else ""
    return one_line(text, len(text) + 1)


def _text(body: LexborNode, source: str, links: Links) -> str:
    html = normal_html(body, source)
    layout = _layout_tables(body) if _may_have_layout(html) else frozenset[int]()
    return _Writer(links, layout).write(html)


def _may_have_layout(html: str) -> bool:
    """Whether a table may serve as layout. To select elements takes three times as long."""
    start = html.find("<table")
    while start >= 0:
        following = html.find("<table", start + 1)
        end = html.find("</table>", start, None if following < 0 else following)
        if end < 0 or _LAYOUT_TAG.search(html, start, end):
            return True
        start = following
    return False


def _layout_tables(body: LexborNode) -> frozenset[int]:
    """The numbers of the tables whose cells have blocks of their own, from 0."""
    seen: set[int] = set()
    for match in body.css(_LAYOUT):
        node = match.parent
        while node is not None and node.mem_id not in seen:
            seen.add(node.mem_id)
            node = node.parent
    if not seen:
        return frozenset()
    return frozenset(n for n, table in enumerate(body.css("table")) if table.mem_id in seen)


_Handler = Callable[["_Writer", str], object]


class _Writer:
    """Writes the lines of HTML that selectolax wrote.

    layout: the numbers of the tables that are no tables of data.
    `_inline` counts the open elements in which blocks do not break lines.
    """

    def __init__(self, links: Links, layout: frozenset[int]) -> None:
        self._page_links = links
        self._layout = layout
        self._table_numbers = count()
        self._image_numbers = count()
        self._parts: Iterator[tuple[str, str]] = iter(())
        self._lines: list[str] = []
        self._pieces: list[str] = []
        self._gap = False
        self._inline = 0
        self._pre = False
        self._bullet = ""
        # The open elements of each kind, the innermost last.
        self._links: list[tuple[int, str] | None] = []
        self._in_link = False
        self._raised: list[int] = []
        self._headings: list[bool] = []
        self._lists: list[int] = []
        self._quotes = 0
        self._preformatted: list[bool] = []
        self._tables = [False]
        self._rows: list[bool] = []

    def write(self, html: str) -> str:
        """The text."""
        pieces, handlers, hide = self._pieces, _Handlers(_HANDLERS), _Writer._hide
        self._parts = parts(html)
        for tag, after in self._parts:
            text, handler = after, handlers[tag]
            if handler is not None:
                if handler is hide:
                    text = self._hide(tag)
                else:
                    handler(self, tag)
            if text and (pieces or self._pre or not text.isspace()):  # no line begins with a space
                pieces.append(unescaped(text) if "&" in text else text)
        self._flush()
        return "\n".join(self._lines)

    def _hide(self, tag: str) -> str:
        """Skip the rest of an element; the text after it."""
        name, depth = tag.partition(" ")[0], 1
        for inner, text in self._parts:
            if inner.startswith("/"):
                depth -= inner[1:] == name
                if not depth:
                    return text
            else:
                depth += inner.partition(" ")[0] == name
        return ""

    # Lines

    def _paragraph(self, _tag: str = "") -> None:
        """A block begins or ends, with an empty line outside of lists."""
        if self._inline:
            self._pieces.append(" ")
            return
        if self._pieces:
            self._flush()
        if not self._lists:
            self._gap = True

    def _line(self, _tag: str = "") -> None:
        """A block without empty lines around it begins or ends."""
        if self._inline:
            self._pieces.append(" ")
        elif self._pieces:
            self._flush()

    def _line_break(self, _tag: str) -> None:
        if self._pre:
            self._pieces.append("\n")
        else:
            self._line()

    def _flush(self) -> None:
        """End the line."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if not self._pre:
            line = _single_spaced(text)
            if line:
                self._write(line)
        elif not text.isspace():
            for line in text.rstrip().split("\n"):
                self._write(line.rstrip())

    def _write(self, line: str) -> None:
        if self._gap:
            if self._lines:
                self._lines.append("")
            self._gap = False
        if self._bullet:
            line = self._bullet + line
            self._bullet = ""
        elif self._lists:
            line = "  " * min(len(self._lists), _MOST_INDENT) + line
        if self._quotes:
            line = "> " * min(self._quotes, _MOST_INDENT) + line
        self._lines.append(line)

    def _taken(self, start: int) -> str:
        """Remove the pieces from `start` on; their text."""
        if len(self._pieces) == start + 1:
            return self._pieces.pop()
        text = "".join(self._pieces[start:])
        del self._pieces[start:]
        return text

    # Within a line

    def _open_link(self, tag: str) -> None:
        href = attribute(tag, "href")
        # Tables can put a link into a link, and a marker in a marker would not be one.
        if href is None or self._in_link:
            self._links.append(None)
            return
        self._links.append((len(self._pieces), href))
        self._inline += 1
        self._in_link = True

    def _close_link(self, _tag: str) -> None:
        link = self._links.pop()
        if link is None:
            return
        self._in_link = False
        self._inline -= 1
        start, href = link
        text = self._taken(start)
        label = " ".join(text.split())
        marker = self._page_links.marker(href, label)
        if len(label) != len(text):
            before = " " if text[0].isspace() else ""
            after = " " if text[-1].isspace() else ""
            marker = f"{before}{marker}{after}"
        self._pieces.append(marker)

    def _image(self, tag: str) -> None:
        name = one_line(attribute(tag, "alt") or attribute(tag, "title") or "")
        number = next(self._image_numbers)
        self._pieces.append(f"[Image {number}: {name}]" if name else f"[Image {number}]")

    def _open_raised(self, _tag: str) -> None:
        self._raised.append(len(self._pieces))

    def _close_raised(self, tag: str) -> None:
        text = self._taken(self._raised.pop())
        sign = "^" if tag == "/sup" else "_"
        simple = _SIMPLE.fullmatch(text.strip())
        self._pieces.append(f"{sign}{{{text.strip()}}}" if simple else text)

    # Blocks

    def _open_heading(self, tag: str) -> None:
        self._paragraph()
        self._headings.append(not self._inline)
        if not self._inline:
            self._pieces.append(f"{'#' * int(tag[1])} ")
        self._inline += 1

    def _close_heading(self, _tag: str) -> None:
        self._inline -= 1
        if self._headings.pop() and not any(map(str.strip, self._pieces[1:])):
            self._pieces.clear()
        self._paragraph()

    def _open_list(self, tag: str) -> None:
        self._paragraph()
        number = -1
        if tag.startswith("ol"):
            start = attribute(tag, "start") or "1"
            number = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1
        self._lists.append(number)

    def _close_list(self, _tag: str) -> None:
        self._line()
        self._lists.pop()
        self._paragraph()

    def _open_item(self, _tag: str) -> None:
        if self._inline:
            self._pieces.append(" ")
            return
        if self._pieces:
            self._flush()
        indent = "  " * min(len(self._lists) or 1, _MOST_INDENT)
        number = self._lists[-1] if self._lists else -1
        if number < 0:
            self._bullet = indent + "* "
        else:
            self._bullet = f"{indent}{number}. "
            self._lists[-1] += 1

    def _close_item(self, _tag: str) -> None:
        if self._inline:
            self._pieces.append(" ")
        elif self._pieces:
            self._flush()
        self._bullet = ""

    def _open_quote(self, _tag: str) -> None:
        self._paragraph()
        self._quotes += 1

    def _close_quote(self, _tag: str) -> None:
        self._line()
        self._quotes -= 1
        self._paragraph()

    def _rule(self, _tag: str) -> None:
        self._paragraph()
        if not self._inline:
            self._write("* * *")
            self._gap = True

    def _open_preformatted(self, _tag: str) -> None:
        begins = not self._inline and not self._pre
        self._preformatted.append(begins)
        if begins:
            self._paragraph()
            self._pre = True

    def _close_preformatted(self, _tag: str) -> None:
        if self._preformatted.pop():
            self._line()
            self._pre = False
            self._gap = True

    # Tables: rows are lines, unless the table serves as layout.

    def _open_table(self, _tag: str) -> None:
        self._paragraph()
        self._tables.append(next(self._table_numbers) not in self._layout)

    def _close_table(self, _tag: str) -> None:
        self._tables.pop()
        self._paragraph()

    def _open_row(self, _tag: str) -> None:
        self._line()
        is_line = self._tables[-1] and not self._inline and not self._pre
        self._rows.append(is_line)
        self._inline += is_line

    def _close_row(self, _tag: str) -> None:
        if not self._rows.pop():
            self._line()
            return
        self._inline -= 1
        text = _single_spaced("".join(self._pieces)).removesuffix(_CELL_END.rstrip())
        self._pieces.clear()
        if text.strip(_CELL_END):
            self._write(text)

    def _close_cell(self, _tag: str) -> None:
        if self._tables[-1]:
            self._pieces.append(_CELL_END)
        else:
            self._line()


def _single_spaced(text: str) -> str:
    """The text with one space for each white space, none at its ends."""
    line = text.replace("\n", " ").strip()
    if "  " not in line and line.isprintable():  # the only white space is single spaces
        return line
    return " ".join(line.split())


def _is_hidden(tag: str) -> bool:
    if attribute(tag, "hidden") is not None:
        return True
    if (attribute(tag, "aria-hidden") or "").lower() == "true":
        return True
    style = attribute(tag, "style")
    return style is not None and _HIDING_STYLE.search(style) is not None


class _Handlers(dict[str, _Handler | None]):
    """What is done at each tag of a page: of a tag with attributes, found once."""

    def __missing__(self, tag: str) -> _Handler | None:
        name = tag.partition(" ")[0]
        handler = self.get(name)
        if name != "body" and ("hidden" in tag or " style=" in tag) and _is_hidden(tag):
            handler = None if name in _VOID_NAMES else _Writer._hide
        self[tag] = handler
        return handler


_PAIRS: dict[str, tuple[_Handler | None, _Handler]] = {
    **dict.fromkeys(_BLOCKS.split(), (_Writer._paragraph, _Writer._paragraph)),
    **dict.fromkeys(_CLOSE.split(), (_Writer._line, _Writer._line)),
    **dict.fromkeys(("ul", "ol", "menu"), (_Writer._open_list, _Writer._close_list)),
    **{f"h{n}": (_Writer._open_heading, _Writer._close_heading) for n in range(1, 7)},
    **dict.fromkeys(("sup", "sub"), (_Writer._open_raised, _Writer._close_raised)),
    **dict.fromkeys(("td", "th"), (None, _Writer._close_cell)),
    "a": (_Writer._open_link, _Writer._close_link),
    "li": (_Writer._open_item, _Writer._close_item),
    "blockquote": (_Writer._open_quote, _Writer._close_quote),
    "pre": (_Writer._open_preformatted, _Writer._close_preformatted),
    "table": (_Writer._open_table, _Writer._close_table),
    "tr": (_Writer._open_row, _Writer._close_row),
}
_HANDLERS: dict[str, _Handler | None] = {
    **{tag: open_ for tag, (open_, _) in _PAIRS.items()},
    **{f"/{tag}": close for tag, (_, close) in _PAIRS.items()},
    **{end + tag: None for tag in _INLINE.split() for end in ("", "/")},
    **dict.fromkeys(_VOID.split()),
    **dict.fromkeys(_HIDDEN.split(), _Writer._hide),
    "br": _Writer._line_break,
    "hr": _Writer._rule,
    "img": _Writer._image,
}
"""What is done at each tag, by the tag without attributes. Others are inline: nothing is done."""
_VOID_NAMES = frozenset([*_VOID.split(), "br", "hr", "img", "wbr"])
