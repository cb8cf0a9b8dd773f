"""Small texts inside declarations: JSON literals and comments."""

import json
from collections.abc import Mapping

# The ends of lines that JSON does not escape itself.
_ESCAPES = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def json_text(value: object) -> str:
    """`value` as compact JSON on one line; what JSON cannot hold is text, what cannot be walked
    `"…"`.
    """
    try:
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), skipkeys=True, default=_jsonable
        )
    except (RecursionError, ValueError):
        return '"…"'
    return text.translate(_ESCAPES)


def _jsonable(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def lines_of(text: str) -> list[str]:
    """Lines without their ends; an empty text has none.

    Lines end as `str.splitlines` has it: with LF, CR, CRLF, VT, FF, FS, GS, RS, NEL, U+2028 and
    U+2029. Whatever a reader takes for the end of a line is the end of a comment.
    """
    return text.splitlines()


def comment(text: str, indent: str = "") -> str:
    """`text` as whole-line comments, each ended; an empty text is an empty comment."""
    return "".join(f"{indent}// {line}\n" for line in lines_of(text) or [""])


def one_line(text: str) -> str:
    """`text` with its lines joined by spaces."""
    return " ".join(lines_of(text))


def aside(text: str) -> str:
    """`text` as a comment within a line."""
    return f"/* {one_line(text).replace('*/', '* /')} */"
