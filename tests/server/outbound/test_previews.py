from typing import Any

import pytest

from server.outbound.previews import MAX_PREVIEW, listed, preview
from server.store.lists import ListEntry, Page


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (None, None),
        ({"type": "function_call_output", "output": "secret"}, None),
        ({"type": "reasoning", "content": [{"text": "hidden"}]}, None),
        ({"type": "message", "content": "a\n  b"}, "a b"),
        ({"type": "message", "content": ""}, None),
        ({"type": "message"}, None),
        ({"type": "message", "content": [{"type": "input_text", "text": "a"}]}, "a"),
        (
            {
                "type": "message",
                "content": [{"type": "input_image", "text": 5}, {"text": "b"}, {"text": None}],
            },
            "b",
        ),
        ({"type": "message", "content": "x" * MAX_PREVIEW}, "x" * MAX_PREVIEW),
        ({"type": "message", "content": "x" * 500}, "x" * (MAX_PREVIEW - 1) + "…"),
    ],
)
def test_a_preview_is_the_beginning_of_the_text(item: Any, expected: str | None) -> None:
    assert preview(item) == expected


def test_a_list_has_the_fields_that_are_asked_for() -> None:
    entry = ListEntry({"id": "a", "tools": ["large"]}, {"type": "message", "content": "Hi"})
    page = listed(Page([entry], has_more=True), ("id", "status"))
    assert page["data"] == [{"id": "a", "status": None, "gpt_oss:preview": "Hi"}]
    assert (page["first_id"], page["has_more"]) == ("a", True)
