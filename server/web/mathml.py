"""TeX to MathML, reduced to the elements and attributes that show mathematics."""

from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element

MAX_TEX = 2_000
"""Characters of one formula. A longer one is shown as its source."""
MAX_DEPTH = 60
"""How deep elements may nest."""


def _words(text: str) -> list[str]:
    return text.split()


ELEMENTS = frozenset(
    _words(
        "math menclose merror mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom "
        "mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr "
        "munder munderover none"
    )
)
ATTRIBUTES = frozenset(
    _words(
        "accent accentunder columnalign columnlines columnspacing data-tex depth display "
        "displaystyle fence form height largeop linethickness lspace mathsize mathvariant maxsize "
        "minsize movablelimits notation rowspacing rowlines rspace scriptlevel separator "
        "separators stretchy symmetric voffset width"
    )
)


def mathml(tex: str, *, block: bool) -> str:
    """`tex` as a `<math>` element; as code, where it is no valid formula.

    block: whether the formula stands in a line of its own.
    """
    if len(tex) > MAX_TEX:
        return _source(tex)
    try:
        root = convert_to_element(tex, display="block" if block else "inline")
        root.set("data-tex", tex)  # for those who copy it
        return _html(root, 0)
    except Exception:
        # The converter raises errors of many kinds, IndexError and KeyError among them.
        return _source(tex)


def _html(element: Element, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError("the formula nests too deep")
    inner = _text(element.text) + "".join(
        _html(child, depth + 1) + _text(child.tail) for child in element
    )
    if element.tag not in ELEMENTS:
        return inner
    attributes = "".join(
        f' {name}="{escape(value)}"' for name, value in element.attrib.items() if name in ATTRIBUTES
    )
    return f"<{element.tag}{attributes}>{inner}</{element.tag}>"


def _text(text: str | None) -> str:
    # The converter writes characters as entities.
    return escape(unescape(text or ""))


def _source(tex: str) -> str:
    return f'<code class="tex">{escape(tex)}</code>'
