"""References within a JSON Schema: `#` and JSON pointers such as `#/$defs/My%20Type`.

Source: RFC 6901, section 6. A fragment is percent-decoded, then split at slashes, then `~1` and
`~0` are replaced in each step. Characters that a URI has to encode are accepted unencoded as well,
since generators of schemas differ in what they encode.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

_MAX_DIGITS = 9


def steps(reference: object) -> tuple[str, ...] | None:
    """The keys and indices of a reference, from the root on.

    None for any other value, and for references to other documents and to anchors.
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def resolve(reference: object, document: object) -> object:
    """The value in `document` that a reference leads to; None if there is no such value."""
    path = steps(reference)
    if path is None:
        return None
    value: Any = document
    for step in path:
        found = key(value, step)
        if found is None:
            return None
        value = value[found]
    return value


def canonical(reference: str) -> str:
    """The reference, encoded as a valid URI; any other string unchanged."""
    path = steps(reference)
    return reference if path is None else "".join(["#", *map(_encoded, path)])


def key(value: object, step: str) -> str | int | None:
    """The key or the index in `value` that a step denotes; None if there is none."""
    if isinstance(value, Mapping):
        return step if step in value else None
    if isinstance(value, Sequence) and not isinstance(value, str):
        index = _index(step)
        return index if index is not None and index < len(value) else None
    return None


def _index(step: str) -> int | None:
    """The index that a step denotes. RFC 6901 does not allow leading zeros."""
    if not (step.isascii() and step.isdecimal() and len(step) <= _MAX_DIGITS):
        return None
    return int(step) if str(int(step)) == step else None


def _encoded(step: str) -> str:
    escaped = step.replace("~", "~0").replace("/", "~1")
    return "/" + quote(escaped, safe="~", errors="replace")
