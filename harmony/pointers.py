"""References within a JSON Schema: `#` and JSON pointers such as `#/$defs/My%20Type`.

Source: RFC 6901, section 6. A fragment is percent-decoded, then split at slashes, then `~1` and
`~0` are replaced in each step. Generators of schemas differ in what they encode, so that characters
which a URI has to encode may stand as they are.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

_MOST_DIGITS = 9


def steps(reference: object) -> tuple[str, ...] | None:
    """The keys and indices that a reference names, from the root on; None for any other value.

    References to other documents and to anchors are other values.
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def resolve(reference: object, document: object) -> object:
    """What a reference names in `document`; None where it names nothing there."""
    path = steps(reference)
    if path is None:
        return None
    found = document
    for step in path:
        found = _member(found, step)
    return found


def canonical(reference: str) -> str:
    """The reference as a valid URI names the same place; any other string as it is."""
    path = steps(reference)
    return reference if path is None else "".join(["#", *map(_encoded, path)])


def _member(value: object, step: str) -> object:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, Sequence) and not isinstance(value, str):
        index = _index(step)
        return value[index] if index is not None and index < len(value) else None
    return None


def _index(step: str) -> int | None:
    """The index that a step spells; RFC 6901 has no leading zeros."""
    if not (step.isascii() and step.isdecimal() and len(step) <= _MOST_DIGITS):
        return None
    return int(step) if str(int(step)) == step else None


def _encoded(step: str) -> str:
    escaped = step.replace("~", "~0").replace("/", "~1")
    return "/" + quote(escaped, safe="~", errors="replace")
