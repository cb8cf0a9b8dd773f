from harmony.messages import Author, Channel, Message, Role
from server.replay.recall import Recall


def turn(text: str, tokens: int = 0) -> tuple[Message, ...]:
    ids = tuple(range(tokens))
    return (Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS, tokens=ids),)


def test_only_the_owner_finds_a_call() -> None:
    recall = Recall()
    recall.remember("ann", "call_1", turn("a"))
    recall.remember("ann", "call_2", turn("b"))
    assert recall.find("ann", ["call_2", "call_3"]) == {"call_2": turn("b")}
    assert recall.find("bob", ["call_1"]) == {}


def test_the_least_recently_used_turn_is_dropped_first() -> None:
    recall = Recall(capacity=30)
    recall.remember("ann", "call_1", turn("a", 10))
    recall.remember("ann", "call_2", turn("b", 10))
    recall.find("ann", ["call_1"])
    recall.remember("ann", "call_3", turn("c", 10))
    assert set(recall.find("ann", ["call_1", "call_2", "call_3"])) == {"call_1", "call_3"}


def test_text_counts_towards_the_capacity() -> None:
    recall = Recall(capacity=30)
    recall.remember("ann", "call_1", turn("a" * 1000))
    assert recall.find("ann", ["call_1"]) == {}
    recall.remember("ann", "call_2", turn("b", 10))
    assert set(recall.find("ann", ["call_2"])) == {"call_2"}
