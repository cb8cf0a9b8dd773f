"""Pages of lists."""

from typing import Any

import pytest

from server.outbound.listing import complete_item, paginate
from server.store.lists import ListQuery


def ids(shown: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in shown["data"]]


def entries(*names: str) -> list[dict[str, Any]]:
    return [{"id": name} for name in names]


@pytest.mark.parametrize(("order", "found"), [("asc", ["b", "c"]), ("desc", [])])
def test_a_page_is_what_comes_after_an_id(order: Any, found: list[str]) -> None:
    shown = paginate(entries("a", "b", "c", "d"), ListQuery(2, order, "a"))
    assert ids(shown) == found
    assert shown["has_more"] is (order == "asc")


def test_an_unknown_cursor_selects_nothing() -> None:
    assert paginate(entries("a"), ListQuery(2, "asc", "x")) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_paging_ends_even_if_ids_repeat(order: Any) -> None:
    repeated = entries("a", "b", "b", "c", "b", "d")
    collected: list[str] = []
    after = None
    for _ in repeated:
        shown = paginate(repeated, ListQuery(1, order, after))
        collected += ids(shown)
        after = shown["last_id"]
        if not shown["has_more"]:
            break
    assert collected == (["a", "b", "d"] if order == "asc" else ["d", "b", "a"])


@pytest.mark.parametrize(
    ("sent", "summary", "content"),
    [
        ({}, [], []),
        ({"summary": None, "content": None}, [], []),
        ({"summary": 1, "content": "One."}, [], [{"type": "reasoning_text", "text": "One."}]),
        ({"summary": "S", "content": []}, [{"type": "summary_text", "text": "S"}], []),
    ],
)
def test_reasoning_is_listed_with_arrays(sent: Any, summary: Any, content: Any) -> None:
    item = complete_item({"type": "reasoning", "id": "rs_1", **sent})
    assert (item["summary"], item["content"]) == (summary, content)


def test_complete_reasoning_stays_as_it_is() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "status": "incomplete",
        "summary": [{"type": "summary_text", "text": "S"}],
        "content": [{"type": "reasoning_text", "text": "One."}],
    }
    assert complete_item(item) == item


@pytest.mark.parametrize(
    ("role", "content", "listed"),
    [
        ("user", "Hi", {"type": "input_text", "text": "Hi"}),
        (
            "assistant",
            "Hi",
            {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []},
        ),
        (
            "assistant",
            [{"type": "output_text", "text": "Hi", "annotations": ["x"]}],
            {"type": "output_text", "text": "Hi", "annotations": ["x"], "logprobs": []},
        ),
        (
            "user",
            [{"type": "input_image", "file_id": "f"}],
            {"type": "input_image", "file_id": "f", "detail": "auto"},
        ),
    ],
)
def test_a_message_is_listed_with_the_fields_that_clients_may_omit(
    role: str, content: Any, listed: dict[str, Any]
) -> None:
    sent = {"type": "message", "id": "msg_1", "role": role, "content": content}
    assert complete_item(sent) == {**sent, "status": "completed", "content": [listed]}
