"""What weighs how much in memory."""

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
