"""Checks of raw JSON values: their types, and the limits of their sizes."""

from collections.abc import Callable
from typing import Any

import pytest

from server.errors import InvalidRequest
from server.schemas.fields import (
    array,
    declaration,
    label,
    mapping,
    optional_boolean,
    optional_label,
    optional_mapping,
    optional_string,
    required,
    string,
)
from server.schemas.limits import MAX_DECLARATION, MAX_ITEMS, MAX_LABEL


def refusal(check: Callable[..., Any], *values: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        check(*values)
    return caught.value


@pytest.mark.parametrize(
    ("check", "value", "problem"),
    [
        (string, None, "expected a string, but got null"),
        (string, 1, "expected a string, but got an integer"),
        (optional_string, [], "expected a string, but got an array"),
        (optional_boolean, "true", "expected a boolean, but got a string"),
        (optional_boolean, 0, "expected a boolean, but got an integer"),
        (mapping, True, "expected an object, but got a boolean"),
        (optional_mapping, 0.5, "expected an object, but got a number"),
        (array, {}, "expected an array, but got an object"),
    ],
)
def test_a_value_of_another_type_is_refused(
    check: Callable[..., Any], value: Any, problem: str
) -> None:
    refused = refusal(check, value, "a.b")
    assert refused.message == f"Invalid value for 'a.b': {problem}."
    assert (refused.param, refused.code) == ("a.b", "invalid_type")


def test_an_absent_field_is_missing_but_null_is_a_value() -> None:
    assert required({"a": "x"}, "a", "b", string) == "x"
    refused = refusal(required, {}, "a", "b", string)
    assert refused.message == "Missing required parameter: 'b.a'."
    assert (refused.param, refused.code) == ("b.a", "missing_required_parameter")
    assert refusal(required, {"a": None}, "a", "b", string).code == "invalid_type"


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (optional_string, ("", "x", None)),
        (optional_boolean, (True, False, None)),
        (mapping, ({}, {"a": 1})),
        (optional_mapping, ({}, {"a": 1}, None)),
    ],
)
def test_a_value_of_the_type_is_returned(check: Callable[..., Any], values: Any) -> None:
    assert [check(value, "a") for value in values] == [*values]


def test_the_length_of_an_array_is_limited() -> None:
    assert array([1, 2], "a", 2) == [1, 2]
    assert refusal(array, [1, 2], "a", 1).message.endswith("expected at most 1 elements.")
    assert refusal(array, [0] * (MAX_ITEMS + 1), "a").param == "a"


def test_the_length_of_a_label_is_limited() -> None:
    assert label("x" * MAX_LABEL, "id") == "x" * MAX_LABEL
    assert optional_label(None, "id") is None
    assert refusal(label, "x" * (MAX_LABEL + 1), "id").param == "id"
    assert refusal(optional_label, 1, "id").code == "invalid_type"


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * MAX_DECLARATION},
        [{}] * (MAX_DECLARATION // 2),
        {"a": 1 << 70, "b": "x" * MAX_DECLARATION},
        [[["x" * 9] * 400_000]],
    ],
)
def test_the_size_of_a_declaration_is_limited(value: Any) -> None:
    declaration("x" * (MAX_DECLARATION - 2), "tools")  # with its quotes just as large
    declaration({"type": "object", "properties": {str(n): {} for n in range(10_000)}}, "tools")
    assert refusal(declaration, value, "tools").param == "tools"
