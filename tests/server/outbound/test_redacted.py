"""Removing reasoning from items that clients sent."""

from typing import Any

import pytest

from server.outbound.redacted import redacted_item
from server.outbound.summary_parts import QUOTED_FIELD


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        (
            {"summary": [{"type": "summary_text", "text": "a"}]},
            [{"type": "summary_text", "text": ""}],
        ),
        ({"summary": ["a", {"text": "b"}]}, [{"text": ""}]),
        ({"summary": "a"}, []),
        ({}, []),
    ],
)
def test_a_summary_of_any_form_that_quotes_reasoning_is_emptied(
    summary: dict[str, Any], shown: list[Any]
) -> None:
    item = {"type": "reasoning", QUOTED_FIELD: True, "content": [], **summary}
    assert redacted_item(item) == {**item, "summary": shown}
