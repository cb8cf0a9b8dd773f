"""What people write in Markdown beyond CommonMark: `<br>`, bare addresses, and tasks in lists."""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

_BREAK = re.compile(r"<br ?/?>")
_SCHEME = re.compile(r"(?<![A-Za-z0-9])https?\Z")
_ADDRESS = re.compile(r"://\w[^\s<>`*\"\\^{}|\[\]»\u2018-\u201f\u2026\u3000-\u303f\uff00-\uffef]*")
_PUNCTUATION = ".,;:!?'_~&"
"""What belongs to the sentence, at the end of an address."""
_TASK = re.compile(r"\[([ xX])\](?=\s)")


def extend(parser: MarkdownIt) -> None:
    """Add the rules to `parser`."""
    parser.inline.ruler.before("autolink", "break", _break)
    parser.inline.ruler.before("linkify", "address", _address)
    parser.core.ruler.before("inline", "tasks", _tasks)


def _break(state: StateInline, silent: bool) -> bool:
    """The only way to end a line within a cell of a table."""
    found = _BREAK.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = found.end()
    return True


def _address(state: StateInline, silent: bool) -> bool:
    """An address without brackets. What is pending ends with its scheme, which is text so far."""
    if state.linkLevel > 0 or state.src[state.pos] != ":":
        return False
    scheme = _SCHEME.search(state.src, max(0, state.pos - len("_https")), state.pos)
    if scheme is None or not state.pending.endswith(scheme[0]):
        return False
    rest = _ADDRESS.match(state.src, state.pos, state.posMax)
    if rest is None:
        return False
    address = scheme[0] + _without_punctuation(rest[0])
    url = state.md.normalizeLink(address)
    if not state.md.validateLink(url):
        return False
    if not silent:
        state.pending = state.pending.removesuffix(scheme[0])
        state.push("link_open", "a", 1).attrSet("href", url)
        state.push("text", "", 0).content = state.md.normalizeLinkText(address)
        state.push("link_close", "a", -1)
    state.pos = scheme.start() + len(address)
    return True


def _without_punctuation(address: str) -> str:
    """The address without the end of the sentence or of the brackets that it stands in."""
    unopened = address.count(")") - address.count("(")
    end = len(address)
    while address[end - 1] in _PUNCTUATION or (address[end - 1] == ")" and unopened > 0):
        unopened -= address[end - 1] == ")"
        end -= 1
    return address[:end]


def _tasks(state: StateCore) -> None:
    """Show the boxes at the beginning of the items of a list."""
    for place, token in enumerate(state.tokens):
        if token.type != "inline" or state.tokens[place - 2].type != "list_item_open":
            continue
        if (found := _TASK.match(token.content)) is not None:
            state.tokens[place - 2].attrSet("class", "task")
            token.content = ("☐" if found[1] == " " else "☑") + token.content[found.end() :]
