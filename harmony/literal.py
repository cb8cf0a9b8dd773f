"""Small texts inside declarations: JSON literals and comments."""

import json
from collections.abc import Mapping


def json_text(value: object) -> str:
    """`value` as compact JSON; what JSON cannot hold is text, what cannot be walked `"…"`."""
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), skipkeys=True, default=_jsonable
        )
    except (RecursionError, ValueError):
        return '"…"'


def _jsonable(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def lines_of(text: str) -> list[str]:
    """Lines without their ends; an empty text has none."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def comment(text: str, indent: str = "") -> str:
    """`text` as whole-line comments, each ended; an empty text is an empty comment."""
    return "".join(f"{indent}// {line}\n" for line in lines_of(text) or [""])


def one_line(text: str) -> str:
    """`text` with its lines joined by spaces."""
    return " ".join(lines_of(text))


def aside(text: str) -> str:
    """`text` as a comment within a line."""
    return f"/* {one_line(text).replace('*/', '* /')} */"
