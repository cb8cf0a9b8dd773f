"""Calls of hosted tools in answers that are not stored, found by their items."""

from harmony.messages import Author, Channel, Message, Role
from server.replay.recalled_calls import RecalledCalls
from server.store.items import StoredItem

CALL = Message(Author(Role.ASSISTANT), "1 + 1", Channel.ANALYSIS, "python", "code", (1, 2))
RESULT = Message(Author(Role.TOOL, "python"), "2", Channel.ANALYSIS, "assistant")


def ran(item_id: str, **fields: object) -> StoredItem:
    item = {"type": "code_interpreter_call", "id": item_id, "code": "1 + 1", **fields}
    return StoredItem(item, CALL, RESULT)


def test_a_call_is_found_by_its_item() -> None:
    calls = RecalledCalls()
    calls.remember("a", [ran("ci_1"), ran("ci_2")])
    found = calls.find("a", ["ci_2", "ci_3"])
    assert list(found) == ["ci_2"]
    assert (found["ci_2"].message, found["ci_2"].result) == (CALL, RESULT)


def test_the_calls_of_another_owner_are_not_found() -> None:
    calls = RecalledCalls()
    calls.remember("a", [ran("ci_1")])
    assert calls.find("b", ["ci_1"]) == {}


def test_of_an_item_only_what_is_compared_is_kept() -> None:
    calls = RecalledCalls(capacity=1000)
    calls.remember("a", [ran("ci_1", outputs=[{"type": "logs", "logs": "x" * 2000}])])
    assert "outputs" not in calls.find("a", ["ci_1"])["ci_1"].item


def test_texts_and_tokens_of_calls_are_bounded() -> None:
    calls = RecalledCalls(capacity=1000)
    for text in ({"code": "x" * 1000}, {}):
        calls.remember("a", [ran("ci_1", **text)])
        assert bool(calls.find("a", ["ci_1"])) == (not text)
    many = Message(Author(Role.ASSISTANT), "1", Channel.ANALYSIS, "python", "code", (1,) * 1000)
    calls.remember("a", [StoredItem(ran("ci_2").item, many, RESULT)])
    assert calls.find("a", ["ci_2"]) == {}
