"""What weighs how much in memory."""

import tracemalloc

import orjson
import pytest

from harmony.messages import Author, Message, Role
from server.store.items import StoredItem
from server.store.weights import Weights

SAID = Message(Author(Role.ASSISTANT), "x" * 5_000, tokens=tuple(range(10_000)))


def weight(*parts: object) -> int:
    weights = Weights()
    weights.hold(parts)  # type: ignore[arg-type]
    return weights.total


def test_text_tokens_and_bytes_weigh() -> None:
    assert weight(b"x" * 5_000) == 5_000
    assert weight({"text": "x" * 5_000}) > 5_000
    assert weight(SAID) > 5_000 + 8 * 10_000
    assert weight(StoredItem({"text": "x" * 5_000}, SAID)) > 5_000 + weight(SAID)
    assert weight(StoredItem({})) > 0


def test_what_several_hold_counts_once_until_all_have_released_it() -> None:
    weights, part = Weights(), StoredItem({"text": "x"}, SAID)
    weights.hold([part])
    once = weights.total
    weights.hold([part])
    assert weights.total == once
    weights.release([part])
    assert weights.total == once
    weights.release([part])
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
