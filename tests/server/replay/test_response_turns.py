"""Turns that come back with their call; through the whole server: test_recalled_reasoning.py."""

from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.replay.response_turns import as_said
from server.store.items import StoredItem

CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
SAID_CALL = Message(
    Author(Role.ASSISTANT), "{}", Channel.COMMENTARY, "functions.f", "json", tokens=(9,)
)


class Counted(dict[str, Any]):
    """An item that counts how often it is read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += key == "content"
        return super().get(key, default)


def preamble(text: str, number: int) -> StoredItem:
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "phase": "commentary"}
    message = Message(Author(Role.ASSISTANT), text, Channel.COMMENTARY, tokens=(number,))
    return StoredItem(item | {"content": text}, message)


def given(text: Any, name: str = "mine") -> StoredItem:
    item = Counted(type="message", id=name, role="assistant", content=text)
    return StoredItem(item)


def sampled(*texts: str) -> dict[str, tuple[StoredItem, ...]]:
    said = tuple(preamble(text, number) for number, text in enumerate(texts))
    return {"c": (*said, StoredItem(CALL, SAID_CALL))}


def test_each_item_is_read_once_however_much_was_said() -> None:
    own = [given("y", name) for name in ("a", "b")]
    repeated = as_said([*own, StoredItem(CALL)], sampled(*map(str, range(20))))
    assert [each.message for each in repeated] == [None, None, SAID_CALL]
    assert [each.item.reads for each in own] == [1, 1]  # type: ignore[attr-defined]


def test_equal_preambles_are_repeated_in_turn() -> None:
    output_up_to_call = sampled("x", "y", "x")
    given_back = [given("x", "a"), given("x", "b"), given("x", "c"), StoredItem(CALL)]
    repeated = as_said(given_back, output_up_to_call)
    messages = [each.message for each in output_up_to_call["c"]]
    assert [each.message for each in repeated] == [messages[0], messages[2], None, messages[3]]


def test_only_what_was_said_since_the_call_before_belongs_to_a_call() -> None:
    other = StoredItem(CALL | {"id": "fc_0", "call_id": "c_0"}, SAID_CALL)
    output_up_to_call = {"c": (preamble("x", 0), other, *sampled("y")["c"])}
    repeated = as_said([given("x", "a"), given("y", "b"), StoredItem(CALL)], output_up_to_call)
    assert [each.message for each in repeated] == [
        None,
        output_up_to_call["c"][2].message,
        SAID_CALL,
    ]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_an_item_of_another_kind_ends_the_turn(role: str) -> None:
    search = StoredItem({"type": "web_search_call", "id": "ws", "role": role})
    repeated = as_said([given("x"), search, StoredItem(CALL)], sampled("x"))
    assert [each.message for each in repeated] == [None, None, SAID_CALL]


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        as_said([given("x", "a"), given(5, "b"), StoredItem(CALL)], sampled("y"))
    assert refused.value.param == "input.1.content"
