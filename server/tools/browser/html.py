"""Converts HTML to the text of a page, in the form that the model was trained on.

Headings begin with `#`, items of lists with `*`; ` | ` separates the cells of a row. Links are
`【id†text】`, images `[Image n: alt]`, superscripts `^{x}`, subscripts `_{x}`. What a browser
does not show is left out: scripts, styles, templates, elements that attributes or inline styles
hide. Rules of style sheets are not known here.
"""

import re
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from server.tools.browser.page import (
    Links,
    Page,
    inert,
    join,
    make_page,
    one_line,
    without_controls,
)

_DEEPEST = 200
"""Elements that are nested deeper are read as plain text."""

_BLOCKS = """
address article aside blockquote body caption center dd details dialog dir div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p
pre search section summary table tbody tfoot thead tr ul
"""
_CLOSE = frozenset({"dd", "dt", "legend", "li", "tbody", "td", "tfoot", "thead", "tr"})
"""Blocks without an empty line around them."""
_LEFT_OUT = """
area audio base canvas col colgroup datalist embed frame frameset head iframe input link map meta
noembed noframes noscript object param script select source style svg template textarea title track
video
"""
_LAYOUT = "td table, td ul, td ol, td pre, td h1, td h2, td h3, td h4, td blockquote, td form"
_SIMPLE = re.compile(r"[\w\-+\N{MINUS SIGN}]+")
_HIDING_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+\s*(?:;|!|$)"
    r"|font-size\s*:\s*0*\.?0+(?:px|pt|r?em|%|vw|vh)?\s*(?:;|!|$)"
    r"|(?:text-indent|left|top)\s*:\s*-\d{4,}",
    re.IGNORECASE,
)


def html_page(html: str, url: str) -> Page:
    """The page of an HTML text. The time is linear in the text."""
    parser = LexborHTMLParser(html)
    base = parser.css_first("base[href]", None, strict=False)
    href = "" if base is None else base.attributes.get("href") or ""
    writer = _Writer(join(url, href) or url)
    body = parser.body
    if body is not None:
        writer.children(body, 0)
    title = parser.css_first("head > title", None, strict=False)
    text = writer.finish()
    return make_page(url, title.text() if title is not None else "", text, writer.links.urls)


def plain(html: str) -> str:
    """The text of a fragment, such as a search result's summary with emphasis, on one line."""
    html = without_controls(html)
    if "<" not in html and "&" not in html:
        return one_line(html, len(html) + 1)
    parser = LexborHTMLParser(html)
    text = parser.body.text(separator="") if parser.body is not None else ""
    return one_line(text, len(text) + 1)


def title_of(html: str) -> str:
    """The title of an HTML text, "" if it has none."""
    title = LexborHTMLParser(html).css_first("head > title", None, strict=False)
    return one_line(title.text()) if title is not None else ""


class _Writer:
    """Collects lines. `inline` counts the open elements in which blocks do not break lines."""

    def __init__(self, base: str) -> None:
        self.links = Links(base)
        self._lines: list[str] = []
        self._pieces: list[str] = []
        self._gap = 0
        self._inline = 0
        self._in_link = False
        self._lists: list[int] = []
        self._quotes = 0
        self._bullet = ""
        self._pre = False
        self._images = 0

    def finish(self) -> str:
        """The text."""
        self._flush()
        return "\n".join(self._lines)

    def children(self, node: LexborNode, depth: int) -> None:
        """Write what the node contains."""
        pieces = self._pieces
        child = node.child
        while child is not None:
            kind = child.tag_id
            if kind == _TEXT:
                text = child.text_content or ""
                if pieces or self._pre or not text.isspace():  # a line begins with no space
                    pieces.append(text if text.isascii() else inert(text))
            elif kind not in _LEFT_OUT_IDS:
                self._element(child, kind, depth)
            child = child.next

    def _element(self, node: LexborNode, kind: int, depth: int) -> None:
        attributes = node.attributes
        if attributes and _is_hidden(attributes):
            return
        if depth > _DEEPEST:
            self._pieces.append(inert(node.text(separator=" ")))
            return
        special = _SPECIAL_IDS.get(kind)
        if special is not None:
            special(self, node, attributes, depth + 1)
            return
        block = _BLOCK_IDS.get(kind)
        if block is not None:
            self._break(block)
        self.children(node, depth + 1)
        if block is not None:
            self._break(block)

    def _break(self, tag: str) -> None:
        if self._inline:
            self._pieces.append(" ")
            return
        self._flush()
        self._gap = max(self._gap, 1 if tag in _CLOSE or self._lists else 2)

    def _flush(self) -> None:
        """End the line."""
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        lines = text.rstrip().split("\n") if self._pre else [" ".join(text.split())]
        if any(lines):
            self._write(lines)

    def _write(self, lines: list[str]) -> None:
        if self._gap == 2 and self._lines:
            self._lines.append("")
        self._gap = 1
        quotes = "> " * self._quotes
        for line in lines:
            prefix = quotes + (self._bullet or "  " * len(self._lists))
            self._bullet = ""
            self._lines.append(f"{prefix}{line.rstrip()}" if line else quotes.rstrip())

    def _taken(self, start: int) -> str:
        """Remove the pieces from `start` on; their text."""
        text = "".join(self._pieces[start:])
        del self._pieces[start:]
        return text

    def _link(self, node: LexborNode, attributes: dict[str, Any], depth: int) -> None:
        href = attributes.get("href")
        # Tables can put a link into a link, and a marker in a marker would not be one.
        if href is None or self._in_link:
            self.children(node, depth)
            return
        start = len(self._pieces)
        self._inline += 1
        self._in_link = True
        self.children(node, depth)
        self._in_link = False
        self._inline -= 1
        text = self._taken(start)
        label = " ".join(text.split())
        before = " " if text[:1].isspace() else ""
        after = " " if text[-1:].isspace() else ""
        self._pieces += [before, self.links.marker(href, label), after]

    def _image(self, _node: LexborNode, attributes: dict[str, Any], _depth: int) -> None:
        name = one_line(attributes.get("alt") or attributes.get("title") or "")
        label = f"[Image {self._images}: {name}]" if name else f"[Image {self._images}]"
        self._images += 1
        self._pieces.append(label)

    def _raised(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        start = len(self._pieces)
        self.children(node, depth)
        text = self._taken(start)
        sign = "^" if node.tag == "sup" else "_"
        simple = _SIMPLE.fullmatch(text.strip())
        self._pieces.append(f"{sign}{{{text.strip()}}}" if simple else text)

    def _line_break(self, _node: LexborNode, _attributes: dict[str, Any], _depth: int) -> None:
        if self._pre:
            self._pieces.append("\n")
        elif self._inline:
            self._pieces.append(" ")
        else:
            self._flush()

    def _heading(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        tag = node.tag or ""
        self._break(tag)
        start = len(self._pieces)
        self._inline += 1
        self.children(node, depth)
        self._inline -= 1
        text = " ".join(self._taken(start).split())
        if text:
            self._pieces.append(text if self._inline else f"{'#' * int(tag[1])} {text}")
        self._break(tag)

    def _list(self, node: LexborNode, attributes: dict[str, Any], depth: int) -> None:
        self._break(node.tag or "")
        number = -1
        if node.tag == "ol":
            start = attributes.get("start") or "1"
            number = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1
        self._lists.append(number)
        self.children(node, depth)
        self._flush()
        self._lists.pop()
        self._break(node.tag or "")

    def _item(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        self._break("li")
        if not self._inline:
            number = self._lists[-1] if self._lists else -1
            indent = "  " * max(1, len(self._lists))
            self._bullet = f"{indent}{number}. " if number >= 0 else f"{indent}* "
            if number >= 0:
                self._lists[-1] += 1
        self.children(node, depth)
        self._break("li")
        self._bullet = ""

    def _quote(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        self._break("blockquote")
        self._quotes += 1
        self.children(node, depth)
        self._flush_block()
        self._quotes -= 1
        self._break("blockquote")

    def _flush_block(self) -> None:
        if not self._inline:
            self._flush()

    def _rule(self, _node: LexborNode, _attributes: dict[str, Any], _depth: int) -> None:
        self._break("hr")
        if not self._inline:
            self._write(["* * *"])
            self._gap = 2

    def _preformatted(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        if self._inline or self._pre:
            self.children(node, depth)
            return
        self._break("pre")
        self._pre = True
        self.children(node, depth)
        self._flush()
        self._pre = False
        self._gap = 2

    def _table(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        self._break("table")
        if self._inline or self._pre or node.css_first(_LAYOUT) is not None:
            self.children(node, depth)
        else:
            self._rows(node, depth)
        self._break("table")

    def _rows(self, node: LexborNode, depth: int) -> None:
        """The rows of a table whose cells have no blocks of their own: a line each."""
        child = node.child
        while child is not None:
            tag = child.tag
            if tag in ("tbody", "thead", "tfoot"):
                self._rows(child, depth)
            elif tag == "tr":
                self._row(child, depth)
            elif child.is_element_node:
                self._element(child, child.tag_id, depth)
            child = child.next

    def _row(self, node: LexborNode, depth: int) -> None:
        self._flush()
        self._gap = max(self._gap, 1)
        self._inline += 1
        cells: list[str] = []
        cell = node.child
        while cell is not None:
            if cell.is_element_node:
                attributes = cell.attributes
                if not attributes or not _is_hidden(attributes):
                    self.children(cell, depth)
                cells.append(" ".join(self._taken(0).split()))
            cell = cell.next
        self._inline -= 1
        if any(cells):
            self._write([" | ".join(cells)])

    def _cell(self, node: LexborNode, _attributes: dict[str, Any], depth: int) -> None:
        """A cell of a table that serves as layout is a block; `_row` reads all others."""
        self._break("td")
        self.children(node, depth)
        self._break("td")

    def _math(self, _node: LexborNode, attributes: dict[str, Any], _depth: int) -> None:
        self._pieces.append(one_line(attributes.get("alttext") or ""))


def _is_hidden(attributes: dict[str, Any]) -> bool:
    if "hidden" in attributes or (attributes.get("aria-hidden") or "").lower() == "true":
        return True
    style = attributes.get("style") or ""
    return bool(style) and _HIDING_STYLE.search(style) is not None


_SPECIAL = {
    "a": _Writer._link,
    "img": _Writer._image,
    "sup": _Writer._raised,
    "sub": _Writer._raised,
    "br": _Writer._line_break,
    "ul": _Writer._list,
    "ol": _Writer._list,
    "menu": _Writer._list,
    "li": _Writer._item,
    "blockquote": _Writer._quote,
    "hr": _Writer._rule,
    "pre": _Writer._preformatted,
    "table": _Writer._table,
    "td": _Writer._cell,
    "th": _Writer._cell,
    "math": _Writer._math,
    **{f"h{level}": _Writer._heading for level in range(1, 7)},
}

# Ids compare faster than names. Those of known elements are the same in every document.
_PROBE = LexborHTMLParser("text<!---->")
_NODES = list(_PROBE.root.traverse(include_text=True)) if _PROBE.root else []
_TEXT = next(node.tag_id for node in _NODES if node.is_text_node)
_LEFT_OUT_IDS = frozenset(
    [node.tag_id for node in _NODES if node.is_comment_node]
    + [_PROBE.create_node(tag).tag_id for tag in _LEFT_OUT.split()]
)
_BLOCK_IDS = {_PROBE.create_node(tag).tag_id: tag for tag in _BLOCKS.split()}
_SPECIAL_IDS = {_PROBE.create_node(tag).tag_id: write for tag, write in _SPECIAL.items()}
