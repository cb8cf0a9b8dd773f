"""The store in memory."""

from server.store.base import StoredItem, StoredResponse
from server.store.memory import MemoryStore


def stored(
    response_id: str, *, owner: str = "a", given: tuple[StoredItem, ...] = (), marker: int = 0
) -> StoredResponse:
    made = StoredItem({"id": f"msg_{response_id}", "type": "message"})
    response = {"id": response_id, "marker": marker}
    return StoredResponse(owner, response, "2026-01-31", (), given, (made,))


async def test_what_is_put_is_got() -> None:
    store = MemoryStore()
    one = stored("one")
    await store.put(one)
    assert await store.get("a", "one") is one
    assert await store.items("a", ["msg_one", "msg_two"]) == {"msg_one": one.output[0]}


async def test_another_owner_finds_nothing() -> None:
    store = MemoryStore()
    await store.put(stored("one"))
    assert await store.get("b", "one") is None
    assert await store.items("b", ["msg_one"]) == {}
    assert not await store.delete("b", "one")
    assert await store.get("a", "one") is not None


async def test_what_is_deleted_is_gone_with_its_items() -> None:
    store = MemoryStore()
    await store.put(stored("one"))
    assert await store.delete("a", "one")
    assert await store.get("a", "one") is None
    assert await store.items("a", ["msg_one"]) == {}
    assert not await store.delete("a", "one")


async def test_a_second_put_replaces() -> None:
    store = MemoryStore()
    await store.put(stored("one"))
    await store.put(stored("one", marker=2))
    got = await store.get("a", "one")
    assert got is not None
    assert got.response["marker"] == 2


async def test_the_least_recently_used_is_forgotten() -> None:
    store = MemoryStore(capacity=2)
    await store.put(stored("one"))
    await store.put(stored("two"))
    await store.get("a", "one")
    await store.put(stored("three"))
    assert [await store.get("a", name) is None for name in ("one", "two", "three")] == [
        False,
        True,
        False,
    ]
    assert list(await store.items("a", ["msg_one", "msg_two"])) == ["msg_one"]


async def test_an_item_that_comes_back_keeps_its_first_form() -> None:
    store = MemoryStore()
    one = stored("one")
    await store.put(one)
    changed = StoredItem({"id": "msg_one", "type": "message", "content": "other"})
    await store.put(stored("two", given=(changed,)))
    assert (await store.items("a", ["msg_one"]))["msg_one"] is one.output[0]
    await store.delete("a", "two")
    assert (await store.items("a", ["msg_one"]))["msg_one"] is one.output[0]


def test_a_continuation_sees_history_input_and_output_in_order() -> None:
    before, given = StoredItem({"id": "1"}), StoredItem({"id": "2"})
    made = StoredItem({"id": "3"})
    response = StoredResponse("a", {"id": "r"}, "2026-01-31", (before,), (given,), (made,))
    assert response.items == (before, given, made)
