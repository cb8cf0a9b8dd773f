from harmony.messages import Author, Channel, Message, Role
from server.replay.recall import Recall


def said(text: str, tokens: int = 0) -> tuple[Message, ...]:
    ids = tuple(range(tokens))
    return (Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS, tokens=ids),)


def test_a_call_is_found_by_its_owner_alone() -> None:
    recall = Recall()
    recall.remember("ann", "call_1", said("a"))
    recall.remember("ann", "call_2", said("b"))
    assert recall.find("ann", ["call_2", "call_3"]) == {"call_2": said("b")}
    assert recall.find("bob", ["call_1"]) == {}


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    recall = Recall(capacity=30)
    recall.remember("ann", "call_1", said("a", 10))
    recall.remember("ann", "call_2", said("b", 10))
    recall.find("ann", ["call_1"])
    recall.remember("ann", "call_3", said("c", 10))
    assert set(recall.find("ann", ["call_1", "call_2", "call_3"])) == {"call_1", "call_3"}


def test_long_text_counts_too() -> None:
    recall = Recall(capacity=30)
    recall.remember("ann", "call_1", said("a" * 1000))
    assert recall.find("ann", ["call_1"]) == {}
    recall.remember("ann", "call_2", said("b", 10))
    assert set(recall.find("ann", ["call_2"])) == {"call_2"}
