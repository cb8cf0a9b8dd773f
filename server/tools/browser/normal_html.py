"""HTML in the form in which the parser writes it.

Every element but the void ones has an end tag, tags are nested, and attributes and text have no `<`
or `>` of their own.

Source: https://html.spec.whatwg.org/multipage/parsing.html#serialising-html-fragments
"""

import re
from collections.abc import Iterable, Iterator

from selectolax.lexbor import LexborNode

from server.tools.browser.page import inert

# Elements whose content the parser may write with `<` and `>` that are no tags.
_REMOVED = re.compile(
    "<(?=[imnpstx][a-z]{2})"  # most tags end here, which takes less time
    "(iframe|math|noembed|noframes|plaintext|script|style|svg|template|xmp)",
    re.IGNORECASE,
)
_HREF = re.compile(r' href="[^"]*"')
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def normal_html(body: LexborNode, source: str) -> str:
    """The HTML of a body, without brackets of markers. source: the text that was parsed.

    Scripts, styles, drawings and the like are removed from the body; formulas become their text.
    """
    removed = {name.lower() for name in _REMOVED.findall(source)}
    # Selectors return a node in the order of the document: what is in a node follows it.
    for node in reversed(body.css(", ".join(removed)) if removed else []):
        if node.tag == "math":
            node.replace_with(node.attributes.get("alttext") or "")
        elif node.tag in ("plaintext", "xmp"):
            node.replace_with(node.text())
        else:
            node.decompose()
    html = body.html or ""
    return html if inert(html) == html else inert(_HREF.sub(_quoted_brackets, html))


def _quoted_brackets(href: re.Match[str]) -> str:
    return href[0].replace("【", "%E3%80%90").replace("】", "%E3%80%91")


def parts(html: str) -> Iterator[tuple[str, str]]:
    """Each tag without its `<` and `>`, and the text after it. Comments are left out."""
    simple = _without_comments(html) if "<!--" in html else html
    found = simple.replace("<", ">").split(">")
    if simple.count(">") == len(found) // 2:
        return zip(found[1::2], found[2::2], strict=True)
    return _joined(html.split("<"))  # names with a `<`, before which a comment may seem to begin


def _without_comments(html: str) -> str:
    # Beyond the last end, each `<!--` would be a search up to the end of the text.
    before, end, after = html.rpartition("-->")
    return _COMMENT.sub("", before + end) + after


def _joined(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The parts without comments; of a name with a `<`, the part before it."""
    in_comment, begun = False, ""
    for part in parts:
        if in_comment or (not begun and part.startswith("!--")):
            _, end, text = part[0 if in_comment else 3 :].partition("-->")
            in_comment = not end
            yield "", text
            continue
        tag, end, text = part.partition(">")
        begun = begun or tag
        if end:
            yield begun, text
            begun = ""


def attribute(tag: str, name: str) -> str | None:
    """The value of an attribute, in which the quotes are escaped; None if there is none."""
    before, found, value = tag.partition(f' {name}="')
    if not found:
        return None
    if before.count('"') % 2:  # within a value
        pieces = tag.split('"')
        names = (place for place in range(0, len(pieces) - 1, 2))
        place = next((each for each in names if pieces[each].endswith(f" {name}=")), -1)
        if place < 0:
            return None
        value = pieces[place + 1]
    value = value.partition('"')[0]
    return unescaped(value) if "&" in value else value


def unescaped(text: str) -> str:
    """The text that the parser escaped."""
    text = text.replace("&nbsp;", "\xa0").replace("&lt;", "<").replace("&gt;", ">")
    return text.replace("&quot;", '"').replace("&amp;", "&")
