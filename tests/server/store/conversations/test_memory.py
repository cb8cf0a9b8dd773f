"""What the store in memory forgets of conversations where there is no room."""

from dataclasses import replace

from server.store.items import StoredItem
from server.store.responses.memory import MemoryStore
from tests.server.store.conversations.test_base import TALK
from tests.server.store.test_contract import item


async def test_memory_forgets_the_least_recently_used() -> None:
    store = MemoryStore(capacity=2)
    one: list[StoredItem] = []
    for name in ("one", "two"):
        await store.conversations.create(replace(TALK, id=name), one)
    await store.conversations.get("a", "one")
    await store.conversations.create(replace(TALK, id="three"), one)
    conversations = [await store.conversations.get("a", name) for name in ("one", "two", "three")]
    assert [each is None for each in conversations] == [False, True, False]


async def test_memory_forgets_the_least_recently_used_where_bytes_are_short() -> None:
    conversations = MemoryStore(most=50_000).conversations
    for name in ("one", "two"):
        await conversations.create(replace(TALK, id=name), [])
    await conversations.add("a", "two", [item("in", content="x" * 20_000)])
    await conversations.remove("a", "two", "in")
    for number in range(3):
        await conversations.add("a", "one", [item(f"in_{number}", content="x" * 20_000)])
    assert await conversations.get("a", "two") is None
    assert await conversations.get("a", "one") is not None
