"""Calls of successive turns that a Chat client sends back in one message."""

from collections.abc import Iterator, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.replay.messages import read_messages

ASSISTANT = Author(Role.ASSISTANT)
USER = {"role": "user", "content": "hi"}


def unseal(seal: str, param: str) -> Message:
    raise AssertionError(f"{param} is no seal")


def text(content: str, channel: Channel) -> Message:
    return Message(ASSISTANT, content, channel, tokens=(1,))


def call(name: str) -> Message:
    return Message(ASSISTANT, "{}", Channel.COMMENTARY, f"functions.{name}", "json", tokens=(2,))


A = [text("Think of a.", Channel.ANALYSIS), text("Look.", Channel.COMMENTARY), call("a")]
B = [text("Think of b.", Channel.ANALYSIS), call("b")]
BC = [*B, call("c")]


def merged(*names: str, content: str = "Look.") -> dict[str, Any]:
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in names
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def answer(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": f"{name} is 1"}


def result(name: str) -> Message:
    author = Author(Role.TOOL, f"functions.{name}")
    return Message(author, f"{name} is 1", Channel.COMMENTARY, "assistant")


def read(*messages: dict[str, Any], **known: Sequence[Message]) -> list[Message]:
    return read_messages(list(messages), messages_up_to_call=known, unseal=unseal)


def test_each_turn_stands_before_its_result() -> None:
    assert read(merged("a", "b"), answer("a"), answer("b"), a=A, b=B) == [
        *A,
        result("a"),
        *B,
        result("b"),
    ]


def test_calls_of_one_turn_stay_together() -> None:
    asked = merged("a", "b", "c")
    read_turns = read(asked, *map(answer, "abc"), a=A, b=B, c=BC)
    assert read_turns == [*A, result("a"), *BC, result("b"), result("c")]


def test_results_in_another_order_follow_their_calls() -> None:
    asked = merged("a", "b", "c")
    read_turns = read(asked, *map(answer, "cab"), a=A, b=B, c=BC)
    assert read_turns == [*A, *BC, result("c"), result("a"), result("b")]


def test_a_turn_without_a_result_stands_before_the_next_message() -> None:
    user = Message(Author(Role.USER), "hi")
    assert read(merged("a", "b"), answer("a"), USER, a=A, b=B) == [*A, result("a"), *B, user]
    assert read(merged("a", "b"), answer("a"), a=A, b=B) == [*A, result("a"), *B]


def test_a_changed_text_stays_after_the_reasoning_of_all_turns() -> None:
    asked = merged("a", "b", content="Hm.")
    reasoning_a, reasoning_b, text, *calls = read(asked, *map(answer, "ab"), a=A, b=B)
    assert (reasoning_a, reasoning_b, text.content) == (A[0], B[0], "Hm.")
    assert [each.recipient for each in calls[:2]] == ["functions.a", "functions.b"]


def test_turns_that_the_server_knows_in_part_are_as_the_client_sent_them() -> None:
    preamble, *calls = read(merged("a", "b"), *map(answer, "ab"), b=B)
    assert preamble.content == "Look."
    assert [each.tokens for each in calls] == [None, None, None, None]


def test_a_call_that_the_message_has_twice_is_as_the_client_sent_it() -> None:
    calls = read(merged("b", "b", content=""), answer("b"), b=B)
    assert [each.tokens for each in calls] == [None, None, None]


class Counted(list[Message]):
    """A turn that counts the messages that are read from its end."""

    reads = 0

    def __reversed__(self) -> Iterator[Message]:
        for message in super().__reversed__():
            self.reads += 1
            yield message


def test_one_call_of_many_does_not_read_them_all() -> None:
    turn = Counted(call("a") for _ in range(100))
    read(merged("a"), answer("a"), a=turn)
    assert turn.reads == 1
