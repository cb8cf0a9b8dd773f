"""What weighs how much in memory."""

import threading
import tracemalloc
from typing import Any

import orjson
import pytest

from harmony.messages import Author, Message, Role
from server.encoding.json_pieces import EncodedArray
from server.store import memory_size as module
from server.store.items import StoredItem
from server.store.memory_size import MemorySizes

MESSAGE = Message(Author(Role.ASSISTANT), "x" * 5_000, tokens=tuple(range(10_000)))


def weight(*parts: object) -> int:
    weights = MemorySizes()
    weights.add(parts)  # type: ignore[arg-type]
    return weights.total


def test_text_tokens_and_bytes_weigh() -> None:
    assert weight(b"x" * 5_000) == 5_000
    assert weight({"text": "x" * 5_000}) > 5_000
    assert weight(MESSAGE) > 5_000 + 8 * 10_000
    assert weight(StoredItem({"text": "x" * 5_000}, MESSAGE)) > 5_000 + weight(MESSAGE)
    assert weight(StoredItem({})) > 0


def test_encoded_arrays_weigh_as_their_bytes() -> None:
    values = EncodedArray()
    values.add(["x" * 5_000] * 50)
    assert 250_000 < weight(StoredItem({"logprobs": values})) < 260_000


def test_what_several_hold_counts_once_until_all_have_released_it() -> None:
    weights, part = MemorySizes(), StoredItem({"text": "x"}, MESSAGE)
    weights.add([part])
    once = weights.total
    for change in (weights.add, weights.add, weights.remove, weights.remove):
        change([part])
        assert weights.total == once
    weights.remove([part])
    assert weights.total == 0


@pytest.mark.parametrize(
    "value", ["[]", "{}", "[[[]]]", "1.5", "123456", '"é"', '"ж"', '"x"', '{"key": "a long value"}']
)
def test_json_weighs_what_it_takes_in_memory(value: str) -> None:
    text = f'{{"junk": [{", ".join([value] * 10_000)}]}}'.encode()
    tracemalloc.start()
    try:
        item = orjson.loads(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.95 * taken <= weight(item) <= 8 * len(text) + 3 * taken


@pytest.mark.parametrize(
    "parts",
    [[{"a": [0] * 9_000}], [{"n": n} for n in range(1_000)], [StoredItem({"a": [0] * 9_000})]],
    ids=["large", "many", "an item"],
)
async def test_what_is_large_is_weighed_on_a_thread(
    monkeypatch: pytest.MonkeyPatch, parts: list[Any]
) -> None:
    weights, on = MemorySizes(), set[int]()
    plain = module.size_of_json

    def noted(value: Any, most: int) -> int:
        on.add(threading.get_ident())
        return plain(value, most)

    monkeypatch.setattr(module, "size_of_json", noted)
    weights.add(parts, await weights.measure(parts))
    assert on
    assert on - {threading.get_ident()}
    assert weights.total == weight(*parts)
    weights.remove(parts)
    assert weights.total == 0


async def test_small_parts_are_measured_without_a_thread() -> None:
    weights, parts = MemorySizes(), ({"text": "x"}, b"x" * 10_000, MESSAGE)
    weights.add(parts, await weights.measure(parts))
    assert weights.total == weight(*parts)


async def test_what_was_measured_and_not_added_leaves_nothing() -> None:
    weights, part = MemorySizes(), {"text": "x"}
    await weights.measure([part])
    part["text"] = "x" * 10_000
    weights.add([part])
    assert weights.total == weight(part)
