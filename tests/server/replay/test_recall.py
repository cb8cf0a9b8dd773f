import tracemalloc

from harmony.messages import Author, Channel, Message, Role
from server.replay.recall import Recall
from server.store.items import SampledTurn


def called(recall: Recall, call_id: str, messages: tuple[Message, ...]) -> None:
    recall.remember("ann", SampledTurn(messages, {call_id: len(messages)}))


def turn(text: str, tokens: int = 0) -> tuple[Message, ...]:
    ids = tuple(range(tokens))
    return (Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS, tokens=ids),)


def test_only_the_owner_finds_a_call() -> None:
    recall = Recall()
    called(recall, "call_1", turn("a"))
    called(recall, "call_2", turn("b"))
    assert recall.find("ann", ["call_2", "call_3"]) == {"call_2": turn("b")}
    assert recall.find("bob", ["call_1"]) == {}


def test_the_least_recently_used_turn_is_dropped_first() -> None:
    recall = Recall(capacity=30)
    called(recall, "call_1", turn("a", 10))
    called(recall, "call_2", turn("b", 10))
    recall.find("ann", ["call_1"])
    called(recall, "call_3", turn("c", 10))
    assert set(recall.find("ann", ["call_1", "call_2", "call_3"])) == {"call_1", "call_3"}


def test_text_counts_towards_the_capacity() -> None:
    recall = Recall(capacity=30)
    called(recall, "call_1", turn("a" * 1000))
    assert recall.find("ann", ["call_1"]) == {}
    called(recall, "call_2", turn("b", 10))
    assert set(recall.find("ann", ["call_2"])) == {"call_2"}


def test_the_messages_of_a_turn_count_once_for_all_its_calls() -> None:
    recall = Recall(capacity=100)
    messages = turn("", 10) * 8
    ends = {f"call_{n}": n + 1 for n in range(8)}
    recall.remember("ann", SampledTurn(messages, ends))
    assert recall.find("ann", ends) == {name: messages[:end] for name, end in ends.items()}
    called(recall, "other", turn("", 50))
    assert set(recall.find("ann", [*ends, "other"])) == {"other"}


def test_many_calls_of_one_turn_are_found_without_a_copy_for_each() -> None:
    recall = Recall()
    ends = {f"call_{number}": number + 1 for number in range(4000)}
    messages = turn("a") * len(ends)
    recall.remember("ann", SampledTurn(messages, ends))
    tracemalloc.start()
    found = recall.find("ann", ends)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    assert found["call_3"] == messages[:4]
