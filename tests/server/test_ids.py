"""Ids, and where a list goes on after one of them."""

import re

import pytest

from server.ids import bounds, created, new_call_id, new_id, place_after


def test_an_id_has_its_kind_and_48_digits() -> None:
    assert re.fullmatch(r"resp_[0-9a-f]{48}", new_id("resp"))


def test_ids_of_calls_are_no_longer_than_openais_chat_api_takes() -> None:
    ids = [new_call_id() for _ in range(100)]
    assert all(re.fullmatch(r"call_[0-9a-f]{1,35}", each) for each in ids)
    assert len(set(ids)) == 100


def test_ids_are_in_the_order_of_creation_as_texts_too() -> None:
    ids = [new_id("resp") for _ in range(1000)]
    assert ids == sorted(ids)
    assert len(set(map(created, ids))) == 1000


EARLIER = "resp_7d1f0a5b2c9e4f6a8b3d5c7e9f1a2b4c6d8e0f2a4b6c8d0e"
"""An id of an earlier version, which has random digits only."""


@pytest.mark.parametrize(
    "name",
    [
        "msg_1",
        "x",
        "",
        f"msg_06612fa84d630d{'0' * 35}",
        f"msg_{'0' * 48}",
        f"msg_{'f' * 48}",
        EARLIER,
    ],
)
def test_other_ids_have_no_time(name: str) -> None:
    assert created(name) is None
    assert bounds(name) is None


def test_between_the_bounds_are_all_ids_of_a_kind_and_no_others() -> None:
    found = bounds(new_id("resp"))
    assert found is not None
    lower, upper = found
    assert lower < new_id("resp") < upper
    others = ("resp_1", "resp_x", EARLIER, new_id("msg"), new_id("response"))
    assert [other for other in others if lower <= other <= upper] == []


def test_a_list_goes_on_after_the_last_entry_with_the_id() -> None:
    assert place_after(["a", "b", "b", "c"], "b", "asc") == 3


def test_a_list_goes_on_where_a_deleted_entry_was() -> None:
    first, deleted, last = (new_id("msg") for _ in range(3))
    assert place_after([first, last], deleted, "asc") == 1
    assert place_after([last, first], deleted, "desc") == 1
    assert place_after([deleted, last], first, "desc") == 2


def test_entries_with_ids_of_clients_are_passed_over() -> None:
    deleted, last = new_id("msg"), new_id("msg")
    assert place_after(["mine", last], deleted, "asc") == 1


def test_a_list_ends_after_an_unknown_id() -> None:
    assert place_after([new_id("msg")], "mine", "asc") == 1


def test_entries_of_other_kinds_follow_in_a_mixed_list_only() -> None:
    deleted, last = new_id("msg"), new_id("rs")
    assert place_after([last], deleted, "asc", mixed=True) == 0
    assert place_after([last], deleted, "asc") == 1
