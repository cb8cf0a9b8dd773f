"""Checks of a summary that need no model: what it copies, and what it must never contain."""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from server.summaries.sources import Sources, distinctive_terms, plain, spaced, words

MOST_COPIED = 7
"""Words in a row that a summary may share with instructions and results of tools."""
MOST_QUOTED = 15
"""Words in a row that a summary may share with the reasoning."""

_CONTROL = re.compile(
    r"<\||\|>|[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    r"|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    r"[\U000e0100-\U000e01ef]"
)
"""Marks of control tokens, characters that control or reorder text, and invisible characters that
can carry a hidden text. One variation selector after a Chinese character is allowed.
"""
_LINK = re.compile(
    r"://|\]\s*[(\[:]|\bdata:|\bwww\.|<[a-z][a-z0-9+.-]{1,31}:(?!:)[^\s<>]*>|"
    r"<[^\s<>@]+@[^\s<>]+>|<!(?:--|\[cdata\[|[a-z])|<\?[a-z]|"
    r"<\s*(?:/\s*)?(?:a|base|body|embed|form|html|iframe|img|input|link|meta|object|script|style|svg)\b"
)
"""Links, and the beginnings of tags that reach out, run or hide what follows them.

`<mailto:a@b.c>` is a link of Markdown, whatever its scheme. `<std::string>` would be one, too, but
leads nowhere.
"""
_ADDRESS = re.compile(r"://|\bwww\.")
"""What becomes a link where it is shown, without Markdown's marks."""
_ELEMENTS = """\
abbr acronym address applet area article aside audio basefont bdi bdo bgsound big blink blockquote
br button canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir
div dl dt em fieldset figcaption figure font footer frame frameset h1 h2 h3 h4 h5 h6 head header
hgroup hr image ins kbd label legend li listing main map mark marquee math menu meter nav nobr
noembed noframes noscript ol optgroup option output param picture plaintext pre progress rb rp rt
rtc ruby samp search section select slot small source span strike strong sub summary sup table tbody
td template textarea tfoot th thead time title tr track tt ul var video wbr xmp"""
_TYPES = """\
address area article b cite code data dir figure header i label legend map mark menu option output p
param q s section small source span strong summary time track u var"""
"""Elements that do nothing by themselves, and whose names are those of types or variables, too."""
# Most comparisons and type parameters must pass: a name of `_TYPES` right after a word is no tag,
# and one that is no element's counts only with the attribute of an event, which any element may
# have. Other elements' names are withheld wherever they are, as in `List<Table>`: a tag may come
# right after a word, too, and the text has no upper case that would tell them apart.
_TAG = re.compile(
    rf"<(?!(?<=\w<)(?:{'|'.join(_TYPES.split())})>)(?:"
    rf"/?(?:{'|'.join(_ELEMENTS.split())})(?:[\s/][^<>]*)?>"
    r"|/?[bipqsu](?:\s*/?|[\s/][^<>=]*=[^<>]*)>"
    r"|[a-z][^<>]*[\s/]on[a-z]+\s*=)"
)
# The first `eyj` of a run of word characters is the one with the most of them after it. The others
# are not tried, which would take quadratic time.
_KEY = re.compile(
    r"\b(?:(?:sk|pk|rk)(?:-|_(?:live|test)_)[\w-]{8}"
    r"|(?:gh[opsur]|github_pat|glpat|hf|xox[abeprs])[-_][\w-]{8}"
    r"|(?:akia|asia)[a-z0-9]{12}|aiza[\w-]{20})|(?<![\w-])(?>[\w-]*?\beyj)[\w-]{10,}+\."
    r"|-----begin ",
    re.IGNORECASE,
)
_MARKUP = (
    r"\\([!-/:-@\[-`{-~])"  # an escape: shown is the character
    r"|(&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});)"  # a reference: also
    r"|[*`~]"
)
# Underscores within a word are shown. Those beside a mark, as in `a_**b**`, may be shown or not.
_SHOWN = (
    re.compile(_MARKUP),
    re.compile(rf"{_MARKUP}|(?<!_)(?:(?<!\w)_++|_++(?!\w))"),
)


def finding(text: str, reasoning: str, sources: Sources, never: Sequence[str]) -> str | None:
    """Why a summary must be withheld, in one word; None if nothing was found.

    text: title and text as the summariser wrote them. reasoning: what it summarises. never: plain
    texts that no summary contains.
    """
    # As Markdown shows it, since `4f**e1**` and `4f&#101;1` look like `4fe1`, and as it is written.
    links = {markup.sub(_visible, text): (_ADDRESS,) for markup in _SHOWN} | {text: (_LINK, _TAG)}
    thoughts = Sources([reasoning])
    for form, patterns in links.items():
        found = next(_findings(form, patterns, thoughts, sources, never), None)
        if found is not None:
            return found
    return None


def _visible(markup: re.Match[str]) -> str:
    return markup[1] or unescape(markup[2] or "")


def _findings(
    text: str,
    links: Sequence[re.Pattern[str]],
    thoughts: Sources,
    sources: Sources,
    never: Sequence[str],
) -> Iterator[str]:
    summary = plain(text)
    terms = words(summary)
    if _CONTROL.search(text) or _CONTROL.search(summary):
        yield "control"
    if any(pattern.search(summary) for pattern in links):
        yield "link"
    if _KEY.search(summary):
        yield "secret"
    together = spaced(terms)
    if any(_has(summary, together, each) for each in never):
        yield "policy"
    if sources.has_run(terms, MOST_COPIED + 1):
        yield "copied"
    if any(map(sources.has_term, distinctive_terms(summary))):
        yield "secret"
    if thoughts.has_run(terms, MOST_QUOTED + 1):
        yield "quoted"


def _has(summary: str, together: str, text: str) -> bool:
    """Whether a summary contains a text, or the words of the text in a row.

    together: the words of the summary, `spaced`.
    """
    own = words(text)
    return text in summary or (bool(own) and spaced(own) in together)
