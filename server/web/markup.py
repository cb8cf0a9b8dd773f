"""Markdown to HTML: with highlighted code and TeX, without HTML of its source and without images.

The result has only elements of `ELEMENTS` and of `server.web.mathml`. All text is escaped.
"""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import import_module
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, paragraph, table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from server.web.extensions import extend
from server.web.highlighting import Highlighter
from server.web.mathml import mathml

MAX_NESTING = 20
_MAX_INLINE = 10_000
"""Characters of a formula within a line, with what closes it."""

MAX_ADDRESSES = 200_000
"""Characters of the addresses and titles of a block's links. Three characters, `[a]`, repeat those
of a definition: without a limit, 100 KB became 600 MB."""
MAX_LACKING = 2_000
"""The most cells that are added to a table's short lines. Once the tables of a block have got more,
the next ones stay text. Without a limit, a line of one character had hundreds."""

_LINK = re.compile(r"(?i)\A(?:https?://|mailto:|#)")
_HIGHLIGHTER = "highlighter"
_ADDRESSES = "addresses"
_LACKING = "lacking"
_CODE_NAME = re.compile(r"[\w+#.-]{1,30}\Z")


def render(text: str, highlighter: Highlighter | None = None) -> str:
    """The HTML of a block of Markdown. It takes some milliseconds for a page of text.

    highlighter: for the code, shared with other blocks; None for one of its own.
    """
    return str(_parser().render(text, {_HIGHLIGHTER: highlighter or Highlighter()}))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt(
        "commonmark", {"html": False, "maxNesting": MAX_NESTING, "breaks": False}
    ).enable(["table", "strikethrough"])
    # An image would be loaded from a place that the model names.
    parser.disable("image")
    parser.validateLink = lambda url: bool(_LINK.match(url.strip()))  # type: ignore[method-assign]
    extend(parser)
    parser.inline.ruler.before("escape", "math", _inline_math)
    # Its own limit is 65,536 for each table, of which a block may have many. The module is imported
    # by its name, because `table` is the function in its package.
    module: Any = import_module("markdown_it.rules_block.table")
    module.MAX_AUTOCOMPLETED_CELLS = MAX_LACKING
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before(
        "fence", "math", _block_math, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    parser.add_render_rule("math_inline", _show_inline)
    parser.add_render_rule("math_block", _show_block)
    parser.add_render_rule("fence", _show_fence)
    parser.add_render_rule("code_block", _show_fence)
    parser.add_render_rule("link_open", _show_link)
    parser.add_render_rule("th_open", _show_cell)
    parser.add_render_rule("td_open", _show_cell)
    return parser


# Pairs that open and close a formula within a line.
_PAIRS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"))
# Dollar signs follow Pandoc's rule: no space inside of them, no digit after the second one, so that
# prices stay text.
_DOLLARS = re.compile(r"\$(?![\s$])((?:[^$\\\n]|\\.){1,400}?)(?<!\s)\$(?!\d)")


def _inline_math(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "\\$" or (found := _inline_formula(state)) is None:
        return False
    tex, end, block = found
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = tex.strip()
        token.meta["block"] = block
    state.pos = end
    return True


def _inline_formula(state: StateInline) -> tuple[str, int, bool] | None:
    """The formula at `state.pos`, the place after it, and whether it is one that stands alone."""
    for opening, closing in _PAIRS:
        if state.src.startswith(opening, state.pos):
            start = state.pos + len(opening)
            # Each opening that nothing closes looks through what follows it.
            last = min(state.posMax, start + _MAX_INLINE)
            end = state.src.find(closing, start + 1, last)
            if end >= 0:
                return state.src[start:end], end + len(closing), opening != "\\("
    found = _DOLLARS.match(state.src, state.pos, state.posMax)
    return None if found is None else (found[1], found.end(), False)


def _block_math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    opening = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]].rstrip()
    closing = {"\\[": "\\]", "$$": "$$"}.get(opening[:2])
    if closing is None or (lines := _formula(state, start, end, opening[2:], closing)) is None:
        return False
    is_ended = lines[-1].endswith(closing)
    if len(lines) == 1 and lines[0].index(closing) + len(closing) < len(lines[0]):
        return False  # a paragraph that begins with a formula
    if silent:
        return True
    last = start + len(lines) - 1
    if not is_ended:
        _formula_in_paragraph(state, last, [opening, *lines[1:-1]])
        return True
    token = state.push("math_block", "math", 0)
    token.content = "\n".join(lines).removesuffix(closing).strip()
    token.map = [start, last + 1]
    state.line = last + 1
    return True


def _formula(state: StateBlock, start: int, end: int, first: str, closing: str) -> list[str] | None:
    """The lines from `first` to the one that has `closing`; None where none has it.

    `$$` before text may be no formula: a later line has to end with it then.
    """
    ends_anywhere = closing != "$$" or not first
    # From which line on nothing closes: text may open a formula in each of its lines.
    unclosed: dict[tuple[int, str, bool], int] = state.env.setdefault("unclosed", {})
    key = (end, closing, ends_anywhere)
    lines = [first]
    is_closed = closing in first
    while not is_closed:
        line = start + len(lines)
        if line >= unclosed.get(key, end):
            unclosed[key] = min(start + 1, unclosed.get(key, end))
            return None
        lines.append(state.src[state.bMarks[line] : state.eMarks[line]].rstrip())
        is_closed = lines[-1].endswith(closing) or (ends_anywhere and closing in lines[-1])
    return lines


def _formula_in_paragraph(state: StateBlock, last: int, lines: Sequence[str]) -> None:
    """Add a paragraph of `lines` and of what follows from the line `last` on.

    Markdown alone would read lines of the formula as items of lists, or end it at a blank one.
    """
    paragraph(state, last, state.lineMax, False)
    _, inline, _ = state.tokens[-3:]
    inline.content = "\n".join([*lines, inline.content])


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table; text, where the earlier tables of the block lack too many cells."""
    lacking: int = state.env.get(_LACKING, 0)
    if lacking > MAX_LACKING or not table(state, start, end, silent):
        return False
    if not silent:
        columns = _cells(state, start + 1)
        lines = range(start + 2, state.line)
        state.env[_LACKING] = lacking + sum(max(0, columns - _cells(state, n)) for n in lines)
    return True


def _cells(state: StateBlock, line: int) -> int:
    text = state.src[state.bMarks[line] : state.eMarks[line]].strip()
    return text.removeprefix("|").removesuffix("|").count("|") + 1


def _show_inline(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return mathml(tokens[index].content, block=tokens[index].meta["block"])


def _show_block(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return f'<div class="formula">{mathml(tokens[index].content, block=True)}</div>\n'


def _show_link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    env[_ADDRESSES] = env.get(_ADDRESSES, 0) + sum(map(len, map(str, token.attrs.values())))
    if env[_ADDRESSES] > MAX_ADDRESSES:
        token.attrs = {}  # a link without an address shows its text alone
    else:
        token.attrSet("rel", "noopener noreferrer nofollow")
        token.attrSet("target", "_blank")
    return str(renderer.renderToken(tokens, index, options, env))


def _show_cell(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    # A class, since the page permits no styles of elements.
    alignment = tokens[index].attrs.pop("style", None)
    if alignment is not None:
        tokens[index].attrSet("class", str(alignment).removeprefix("text-align:"))
    return str(renderer.renderToken(tokens, index, options, env))


def _show_fence(_: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    language = (token.info.split() or [""])[0]
    name = language if _CODE_NAME.match(language) else ""
    label = f' data-language="{escape(name)}"' if name else ""
    return f"<pre{label}><code>{env[_HIGHLIGHTER].html(token.content, name)}</code></pre>\n"
