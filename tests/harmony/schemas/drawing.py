"""Schemas for tests, and JSON like schemas for hypothesis."""

from typing import Any

from hypothesis import strategies as st

from harmony.schemas.places import TYPES


def closed(**properties: Any) -> dict[str, Any]:
    """An object as strict mode wants it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> dict[str, Any]:
    schema = closed()
    for _ in range(levels):
        schema = closed(a=schema)
    return schema


WORDS = st.sampled_from(
    [*TYPES, "type", "properties", "items", "anyOf", "$ref", "#", "required", "enum"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
