"""Checks of raw JSON values: the limits of their sizes."""

from collections.abc import Callable
from typing import Any

import pytest

from server.errors import InvalidRequest
from server.schemas.fields import array, declaration, label, optional_label
from server.schemas.limits import MAX_DECLARATION, MAX_ITEMS, MAX_LABEL


def refusal(check: Callable[..., Any], *values: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        check(*values)
    return caught.value


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
    declaration({"type": "object", "properties": {str(n): {} for n in range(10_000)}}, "tools")
    assert refusal(declaration, value, "tools").param == "tools"
