import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from harmony.events import Repair
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import START
from server.web import parsing
from server.web.parsing import PlacedMessage

WHOLE = (
    "<|start|>system<|message|>Be short.<|end|>"
    "<|start|>user<|message|>Weather?<|end|>"
    "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"
    "<|start|>functions.f to=assistant<|channel|>commentary<|message|>21<|end|>"
    "<|start|>assistant<|channel|>final<|message|>It is 21.<|return|>"
)


def parse(*given: Any, **named: Any) -> list[PlacedMessage]:
    return list(parsing.parse(*given, **named))


def texts(text: str, message: PlacedMessage, tools: Any = ()) -> tuple[str, str]:
    """The text of all tokens of the message, and of its content."""
    ids = encode_with_control(text)
    return decode(ids[slice(*message.span)]), decode(ids[slice(*message.body)])


def test_a_completion_is_read_with_its_repairs() -> None:
    text = "<|channel|>analysis<|message|>Hm.<|end|>final<|message|>Yes."
    first, second = parse(encode_with_control(text))
    assert (first.role, first.channel, first.content) == ("assistant", "analysis", "Hm.")
    assert first.repairs == ()
    assert texts(text, first) == ("<|channel|>analysis<|message|>Hm.<|end|>", "Hm.")
    assert texts(text, second) == ("final<|message|>Yes.", "Yes.")
    assert Repair.MISSING_START in [each.name for each in second.repairs]
    assert not second.complete


def test_whole_messages_have_their_roles_and_places() -> None:
    messages = parse(encode_with_control(WHOLE))
    assert [(each.role, each.recipient, each.channel, each.content) for each in messages] == [
        ("system", None, None, "Be short."),
        ("user", None, None, "Weather?"),
        ("assistant", "functions.f", "commentary", "{}"),
        ("functions.f", "assistant", "commentary", "21"),
        ("assistant", None, "final", "It is 21."),
    ]
    assert messages[2].content_type == "json"
    assert not any(each.repairs for each in messages)
    assert all(each.complete for each in messages)
    assert "".join(texts(WHOLE, each)[0] for each in messages) == WHOLE
    assert [texts(WHOLE, each)[1] for each in messages] == [each.content for each in messages]


def test_what_was_not_sampled_is_read_as_it_stands() -> None:
    prompt = "<|start|>user<|message|>Hi<|end|><|start|>assistant"
    ids = encode_with_control(prompt)
    sampled = encode_with_control("<|channel|>final<|message|>Yes<|start|>user<|message|>No")
    whole = [*ids, *sampled]
    given, *read = parse(whole, sampled=[(len(ids), len(whole))])
    assert (given.role, given.content) == ("user", "Hi")
    assert [each.role for each in read] == ["assistant", "assistant"]
    assert [each.content for each in read] == ["Yes", "No"]


def test_a_prompt_ends_with_a_header_without_a_message() -> None:
    (message,) = parse(encode_with_control("<|start|>user<|message|>Hi<|end|><|start|>assistant"))
    assert message.content == "Hi"
    assert parse(encode_with_control("<|start|>user")) == []
    assert parse([]) == []


def test_a_declared_tool_is_recognised() -> None:
    tokens = encode_with_control("<|channel|>commentary to=f<|message|>{}<|call|>")
    (message,) = parse(tokens, ["functions.f"])
    assert message.recipient == "functions.f"


def test_a_wrong_role_is_a_repair() -> None:
    text = "<|start|>assistnt<|channel|>final<|message|>Yes<|return|>"
    (message,) = parse(encode_with_control(text))
    (repair,) = message.repairs
    assert repair.name == Repair.UNEXPECTED_ROLE
    assert decode(encode_with_control(text)[slice(*repair.span)]) == text.partition("Yes")[0]


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        ("<|message|>a<|return|>", "missing_channel", "<|message|>"),
        ("<|channel|>final<|message|>a<|end|>final<|message|>b", "missing_start", "final"),
        ("<|channel|>final<|message|>a<|call|>", "unexpected_end", "<|call|>"),
        (
            "<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>",
            "control_in_body",
            "<|channel|>",
        ),
        (
            "<|channel|>final<|message|>a<|reserved_200000|>b<|return|>",
            "control_in_body",
            "<|reserved_200000|>",
        ),
        ("Hello there<|return|>", "headerless_text", "Hello there"),
    ],
)
def test_a_repair_names_the_tokens_that_it_concerns(text: str, name: str, place: str) -> None:
    ids = encode_with_control(text)
    repairs = {each.name: each.span for message in parse(ids) for each in message.repairs}
    assert decode(ids[slice(*repairs[Repair(name)])]) == place


@pytest.mark.parametrize("unknown", [[], [999_999]])
def test_the_token_that_is_no_utf8_is_found(unknown: list[int]) -> None:
    broken = encode("🤖🏽")[0]
    head = encode_with_control("<|channel|>final<|message|>ab")
    ids = [*head, broken, *encode(" c"), *unknown]
    (message,) = parse(ids)
    (place,) = [each.span for each in message.repairs if each.name == Repair.INVALID_UTF8]
    assert place in [(len(head), len(head) + 1), (len(head) + 1, len(head) + 2)]


def test_texts_without_headers_have_places_of_their_own() -> None:
    text = "One<|end|>Two<|return|>"
    ids = encode_with_control(text)
    messages = parse(ids)
    assert [each.content for each in messages] == ["One", "Two"]
    assert [decode(ids[slice(*each.span)]) for each in messages] == ["One<|end|>", "Two<|return|>"]


def instructions(token_ids: Sequence[int], sampled: Sequence[tuple[int, int]]) -> int:
    """How many instructions of Python `parse` runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse(token_ids, sampled=sampled)
    finally:
        sys.settrace(before)
    return count


def test_the_work_grows_with_the_tokens_and_not_with_their_square() -> None:
    # The first call also fills caches.
    _, small, large = (
        instructions([START, 1000] * size, [(2 * at, 2 * at + 1) for at in range(size // 2)])
        for size in (10, 200, 800)
    )
    assert large < 5 * small


def test_only_messages_that_no_range_touches_are_read_as_they_stand() -> None:
    message = encode_with_control("<|start|>user<|message|>Hi<|end|>")
    length = len(message)
    last_of_first = [(length - 1, length)]
    assert [each.role for each in parse(message * 3, sampled=last_of_first)][1:] == ["user"] * 2
    assert [each.role for each in parse(message * 3, sampled=[])] == ["user"] * 3
