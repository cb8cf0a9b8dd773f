from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher

from harmony.grammar import GrammarSpec, SchemaJson, answer_grammar
from harmony.pointers import canonical, resolve, steps
from harmony.schemas import check_strict
from harmony.typescript import type_of

# RFC 6901, sections 5 and 6.
EXAMPLE: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("#", EXAMPLE),
        ("#/foo", ["bar", "baz"]),
        ("#/foo/0", "bar"),
        ("#/", 0),
        ("#/a~1b", 1),
        ("#/c%25d", 2),
        ("#/e%5Ef", 3),
        ("#/g%7Ch", 4),
        ("#/i%5Cj", 5),
        ("#/k%22l", 6),
        ("#/%20", 7),
        ("#/m~0n", 8),
    ],
)
def test_the_examples_of_the_standard(reference: str, value: object) -> None:
    assert resolve(reference, EXAMPLE) == value


@pytest.mark.parametrize(
    ("reference", "value"),
    [("#/c%d", 2), ("#/e^f", 3), ("#/g|h", 4), ("#/i\\j", 5), ('#/k"l', 6), ("#/ ", 7)],
)
def test_characters_that_a_uri_encodes_may_stand_as_they_are(reference: str, value: int) -> None:
    assert resolve(reference, EXAMPLE) == value


def test_an_encoded_slash_separates_steps() -> None:
    assert resolve("#%2Ffoo%2f1", EXAMPLE) == "baz"


def test_any_mapping_and_sequence_is_gone_through() -> None:
    assert resolve("#/a/1", MappingProxyType({"a": (1, 2)})) == 2


@pytest.mark.parametrize(
    "reference",
    [
        *(
            "#/bar",
            "#/foo/2",
            "#/foo/-",
            "#/foo/01",
            "#/foo/0/0",
            "#/foo/²",
            "#/foo/" + "1" * 5_000,
        ),
        *("#foo", "other.json#/foo", "/foo", "", 1, None, ["#"]),
    ],
)
def test_a_reference_to_nothing_resolves_to_nothing(reference: object) -> None:
    assert resolve(reference, EXAMPLE) is None


@pytest.mark.parametrize(
    ("reference", "form"),
    [
        ("#", "#"),
        ("#/$defs/My Type", "#/%24defs/My%20Type"),
        ("#/$defs/My%20Type", "#/%24defs/My%20Type"),
        ("#/a~1b~0", "#/a~1b~0"),
        ("#/a#b?c", "#/a%23b%3Fc"),
        ("#/100%", "#/100%25"),
        ("#/é", "#/%C3%A9"),
        ("#/\ud800", "#/%3F"),
        ("#anchor", "#anchor"),
        ("http://x/y z", "http://x/y z"),
    ],
)
def test_a_reference_has_one_form_that_is_a_uri(reference: str, form: str) -> None:
    assert canonical(reference) == form


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_the_form_names_the_same_place(path: list[str]) -> None:
    escaped = (step.replace("%", "%25").replace("~", "~0").replace("/", "~1") for step in path)
    reference = "".join(f"#{''.join(f'/{step}' for step in escaped)}")
    form = canonical(reference)
    assert steps(form) == steps(reference) == tuple(path)
    assert canonical(form) == form
    assert form.isascii()


NAMES = {
    "My Type": ("#/$defs/My%20Type", "#/$defs/My Type"),
    "Page[int]": ("#/$defs/Page%5Bint%5D", "#/$defs/Page[int]"),
    "a/b~": ("#/$defs/a~1b~0", "#/$defs/a~1b%7E0"),
    "100%": ("#/$defs/100%25", "#/$defs/100%"),
    "größe": ("#/$defs/gr%C3%B6%C3%9Fe", "#/$defs/größe"),
    "a#b": ("#/$defs/a%23b", "#/$defs/a#b"),
    "a\nb": ("#/$defs/a%0Ab", "#/$defs/a\nb"),
}


@pytest.mark.parametrize(
    ("name", "reference"),
    [(name, reference) for name, references in NAMES.items() for reference in references],
)
def test_declaration_strict_check_and_grammar_resolve_alike(name: str, reference: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": reference}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {name: {"type": "integer"}},
    }
    check_strict(schema)
    assert type_of(schema) == "{\na: number,\n}"
    assert LLMatcher.validate_grammar(answer_grammar(GrammarSpec(answer=SchemaJson(schema)))) == ""
