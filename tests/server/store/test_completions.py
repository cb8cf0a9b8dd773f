from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.store.completions import MemoryCompletions, StoredCompletion, Wanted

SAID = (Message(Author(Role.ASSISTANT), "Hm.", Channel.ANALYSIS),)


def stored(name: str, owner: str = "ann", **fields: Any) -> StoredCompletion:
    completion = {"id": name, "model": "m", "metadata": {}} | fields
    return StoredCompletion(owner, completion, (), {f"call_of_{name}": SAID})


async def test_the_oldest_are_forgotten_with_their_calls() -> None:
    store = MemoryCompletions(capacity=2)
    for name in "abc":
        await store.put(stored(name))
    assert await store.get("ann", "a") is None
    found = await store.called("ann", ["call_of_a", "call_of_b", "call_of_c"])
    assert set(found) == {"call_of_b", "call_of_c"}
    assert await store.called("bob", ["call_of_b"]) == {}


async def test_an_annotated_completion_keeps_its_place() -> None:
    store = MemoryCompletions()
    for name in "ab":
        await store.put(stored(name))
    changed = await store.annotate("ann", "a", {"k": "v"})
    assert changed is not None
    assert changed.completion["metadata"] == {"k": "v"}
    listed = await store.list("ann", Wanted(limit=5))
    assert [completion["id"] for completion in listed.completions] == ["a", "b"]
    assert listed.completions[0] == changed.completion
