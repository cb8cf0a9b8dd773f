"""TeX to MathML, reduced to the elements and attributes that show mathematics."""

import re
from collections.abc import Callable
from html import escape, unescape
from xml.etree.ElementTree import Element, SubElement

from latex2mathml.converter import convert_to_element

MAX_TEX = 2_000
"""Characters of one formula. A longer one is shown as its source."""
MAX_DEPTH = 60
"""How deep elements may nest."""


def _words(text: str) -> list[str]:
    return text.split()


ELEMENTS = frozenset(
    _words(
        "math merror mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom "
        "mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr "
        "munder munderover none"
    )
)
ATTRIBUTES = frozenset(
    _words(
        "accent accentunder class columnalign columnlines columnspacing data-tex depth display "
        "displaystyle fence form height largeop linethickness lspace mathsize mathvariant maxsize "
        "minsize movablelimits rowspacing rowlines rspace scriptlevel separator "
        "separators stretchy symmetric voffset width"
    )
)

_ROWS = frozenset(_words("math menclose mphantom mrow msqrt mstyle mtd"))
"""Elements that may have any number of children."""
_OPTION = re.compile(
    r"(\\\\)\s*\[-?[\d.]+\s*[a-z]{2}\]"
    r"|(\\begin\{[a-zA-Z]+\*?\})\[[tbc]\]"
    r"|(\\begin\{align(?:ed)?at\*?\})\{\d+\}"
)
"""What says how lines are placed. The converter would show it."""


def mathml(tex: str, *, block: bool) -> str:
    """`tex` as a `<math>` element; as code, where it is no valid formula.

    block: whether the formula stands in a line of its own.
    """
    if len(tex) > MAX_TEX:
        return _source(tex)
    try:
        source = _OPTION.sub(lambda found: found[1] or found[2] or found[3], tex)
        root = convert_to_element(source, display="block" if block else "inline")
        root.set("data-tex", tex)  # for those who copy it
        return _html(root, 0)
    except Exception:
        # The converter raises errors of many kinds, IndexError and KeyError among them.
        return _source(tex)


def _html(element: Element, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError("the formula nests too deep")
    if _is_column_end(element):
        raise ValueError("the formula has a column outside of a table")
    if element.tag in _ROWS:
        _set_lines(element)
    if element.tag == "menclose":
        # Some browsers do not draw it: the page's style draws the class.
        element.tag = "mrow"
        element.set("class", element.attrib.pop("notation", ""))
    inner = _text(element.text) + "".join(
        _html(child, depth + 1) + _text(child.tail) for child in element
    )
    if element.tag not in ELEMENTS:
        return inner
    attributes = "".join(
        f' {name}="{escape(value)}"' for name, value in element.attrib.items() if name in ATTRIBUTES
    )
    return f"<{element.tag}{attributes}>{inner}</{element.tag}>"


def _set_lines(row: Element) -> None:
    """Make a table of the lines of `row`.

    No browser breaks lines of formulas, and the converter knows some environments only: of the
    other ones it leaves the ends of lines and of columns.
    """
    if not any(_is_line_end(child) or _is_column_end(child) for child in row):
        return
    lines = _parts(list(row), _is_line_end)
    is_aligned = any(map(_is_column_end, row))
    for child in list(row):
        row.remove(child)
    table = SubElement(row, "mtable", displaystyle="true", rowspacing="3pt")
    if is_aligned:
        table.set("columnspacing", "0em 2em")
    for line in lines if lines[-1] else lines[:-1]:
        shown = SubElement(table, "mtr")
        for place, cell in enumerate(_parts(line, _is_column_end)):
            side = ("right", "left")[place % 2] if is_aligned else "center"
            column = SubElement(shown, "mtd", columnalign=side)
            if place % 2:
                SubElement(column, "mi")  # so that an operator stands between two terms
            column.extend(cell)


def _parts(elements: list[Element], is_end: Callable[[Element], bool]) -> list[list[Element]]:
    """The elements before, between and after those that end a part."""
    parts: list[list[Element]] = [[]]
    for element in elements:
        if is_end(element):
            parts.append([])
        else:
            parts[-1].append(element)
    return parts


def _is_line_end(element: Element) -> bool:
    return element.get("linebreak") == "newline"


def _is_column_end(element: Element) -> bool:
    # A sign that is shown is an entity.
    return element.tag == "mi" and element.text == "&"


def _text(text: str | None) -> str:
    # The converter writes characters as entities.
    return escape(unescape(text or ""))


def _source(tex: str) -> str:
    return f'<code class="tex">{escape(tex)}</code>'
