"""What the store in memory forgets of chat completions where there is no room."""

from dataclasses import replace

from server.store.chat_completions.memory import MemoryChatCompletions
from tests.server.store.chat_completions.test_base import stored


async def test_memory_forgets_the_oldest_where_bytes_are_short() -> None:
    completions = MemoryChatCompletions(most=50_000)
    long = {"id": "m", "content": "x" * 20_000}
    for name in "abc":
        await completions.put(replace(stored(name), messages=({**long},)))
        await completions.annotate("ann", name, {"named": name})
    remaining = [name for name in "abc" if await completions.get("ann", name)]
    assert remaining == ["b", "c"]


async def test_memory_forgets_the_oldest_with_their_calls() -> None:
    completions = MemoryChatCompletions(capacity=2)
    for name in "abc":
        await completions.put(stored(name))
    assert await completions.get("ann", "a") is None
    found = await completions.messages_up_to_call("ann", ["call_of_a", "call_of_b", "call_of_c"])
    assert set(found) == {"call_of_b", "call_of_c"}
