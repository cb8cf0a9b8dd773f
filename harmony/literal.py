"""JSON literals and comments for the declarations of tools."""

import json
from collections.abc import Mapping

# The line ends that JSON does not escape.
_ESCAPES = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def json_text(value: object) -> str:
    """`value` as compact JSON on one line.

    A value inside that JSON cannot represent becomes its `str`. A value that cannot be traversed
    (circular or nested too deeply) becomes `"…"`.
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
    """The lines of `text` without their ends; none for an empty text.

    Lines end as in `str.splitlines`: with LF, CR, CRLF, VT, FF, FS, GS, RS, NEL, U+2028 and U+2029.
    Each of them could end a comment for a reader.
    """
    return text.splitlines()


def comment(text: str, indent: str = "") -> str:
    """`text` as comment lines, each with a line end; an empty text gives one empty comment."""
    return "".join(f"{indent}// {line}\n" for line in lines_of(text) or [""])


def one_line(text: str) -> str:
    """`text` with its lines joined by spaces."""
    return " ".join(lines_of(text))


def inline_comment(text: str) -> str:
    """`text` as a comment inside a line: `/* text */`."""
    return f"/* {one_line(text).replace('*/', '* /')} */"
