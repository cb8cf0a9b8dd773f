from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import FinishReason, GenerationChunk, TokenLogprobs
from harmony.events import Header, MessageStarted, Repair
from harmony.messages import Author, Channel, Message, Role
from harmony.parser import NEXT_MESSAGE, Parser
from harmony.tokenizer import decode, encode_with_control
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    TurnReader,
    Usage,
)

THINK = "<|channel|>analysis<|message|>One and two.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>"
CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>'


def reader(stop: tuple[str, ...] = (), prompt_tokens: int = 10) -> TurnReader:
    return TurnReader(Parser(["functions.f"]), prompt_tokens, stop)


def chunks(
    token_ids: Sequence[int], size: int = 1, *, logprobs: bool = False
) -> list[GenerationChunk]:
    """The tokens in chunks of `size`; the n-th token's logprob is -n."""
    return [
        GenerationChunk(
            tuple(token_ids[first : first + size]),
            tuple(
                TokenLogprobs(token, float(-number))
                for number, token in enumerate(token_ids[first : first + size], first)
            )
            if logprobs
            else None,
        )
        for first in range(0, len(token_ids), size)
    ]


def read(
    completion: str | Sequence[int],
    *,
    stop: tuple[str, ...] = (),
    size: int = 1,
    logprobs: bool = False,
    reason: FinishReason = "stop",
) -> list[TurnEvent]:
    """All events of a completion; as a turn does, it reads no further than a stop string."""
    token_ids = encode_with_control(completion) if isinstance(completion, str) else completion
    turn_reader = reader(stop)
    events: list[TurnEvent] = []
    for chunk in chunks(token_ids, size, logprobs=logprobs):
        events += turn_reader.push(chunk)
        if turn_reader.stopped:
            break
    return [*events, *turn_reader.finish(reason)]


def text(events: Sequence[TurnEvent], index: int) -> str:
    return "".join(
        event.text for event in events if isinstance(event, TextDelta) and event.index == index
    )


def closed(events: Sequence[TurnEvent]) -> list[MessageClosed]:
    return [event for event in events if isinstance(event, MessageClosed)]


def usage(events: Sequence[TurnEvent]) -> Usage:
    finished = events[-1]
    assert isinstance(finished, TurnFinished)
    return finished.usage


def logprobs_of(events: Sequence[TurnEvent]) -> list[tuple[float, ...]]:
    """The logprobs of each delta."""
    return [
        tuple(entry.logprob for entry in event.logprobs)
        for event in events
        if isinstance(event, TextDelta)
    ]


# Messages


def test_a_message_has_a_start_deltas_and_an_end() -> None:
    tokens = encode_with_control(f"{ANSWER}Hi there<|return|>")
    header = Header(Channel.FINAL)
    message = Message(
        Author(Role.ASSISTANT),
        "Hi there",
        Channel.FINAL,
        tokens=(*encode_with_control("<|start|>assistant"), *tokens),
    )
    assert read(tokens) == [
        MessageStarted(0, header),
        TextDelta(0, "Hi"),
        TextDelta(0, " there"),
        MessageClosed(0, header, message, complete=True),
        TurnFinished("stop", Usage(10, output=len(tokens))),
    ]


def test_each_message_has_its_place_and_its_header() -> None:
    events = read(f"{THINK}{CALL}")
    assert [event.index for event in closed(events)] == [0, 1]
    assert (text(events, 0), text(events, 1)) == ("One and two.", '{"a":1}')
    call = closed(events)[1]
    assert call.header == Header(Channel.COMMENTARY, "functions.f", "json")
    assert (call.message.recipient, call.message.content_type) == ("functions.f", "json")


@given(st.integers(1, 30))
def test_how_tokens_are_chunked_changes_no_text(size: int) -> None:
    completion = f"{THINK}{ANSWER}Käse 🧀 stop here<|return|>"
    whole, cut = read(completion, stop=("stop",)), read(completion, stop=("stop",), size=size)
    assert [text(cut, 0), text(cut, 1)] == [text(whole, 0), text(whole, 1)]
    assert closed(cut) == closed(whole)


def test_the_sampled_ids_of_a_legal_message_can_be_replayed() -> None:
    events = read(f"{THINK}{ANSWER}Hi<|return|>")
    assert [decode(event.message.tokens or ()) for event in closed(events)] == [
        "<|start|>assistant<|channel|>analysis<|message|>One and two.<|end|>",
        "<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    ]


def test_the_ids_of_a_repaired_message_are_not_replayed() -> None:
    (message,) = closed(read("<|channel|>finally<|message|>Hi<|return|>"))
    assert message.repairs == (Repair.UNKNOWN_CHANNEL,)
    assert message.message.tokens is None
    assert message.message.content == "Hi"


def test_the_ids_of_an_unfinished_message_are_not_replayed() -> None:
    (message,) = closed(read(f"{ANSWER}Hi", reason="length"))
    assert (message.complete, message.message.tokens) == (False, None)


def test_an_empty_message_that_the_model_began_is_shown() -> None:
    events = read(f"{ANSWER}<|end|><|start|>assistant{ANSWER}Bye<|return|>")
    assert [event.index for event in events if isinstance(event, MessageStarted)] == [0, 1]
    assert [each.message.content for each in closed(events)] == ["", "Bye"]


def test_a_completion_without_a_message_is_only_finished() -> None:
    assert read("<|channel|>ana", reason="length") == [
        TurnFinished("length", Usage(10, output=len(encode_with_control("<|channel|>ana"))))
    ]


def test_the_open_message_and_the_last_one_are_known() -> None:
    turn_reader = reader()
    known = []
    for piece in ("<|channel|>analysis<|message|>One", "<|end|>", f"<|start|>assistant{ANSWER}"):
        turn_reader.push(GenerationChunk((*encode_with_control(piece),)))
        known.append((turn_reader.header, turn_reader.last and turn_reader.last.message.content))
    assert known == [(Header(Channel.ANALYSIS), None), (None, "One"), (Header(Channel.FINAL), None)]


def test_the_repairs_of_all_messages_are_known() -> None:
    turn_reader = reader()
    text = "<|channel|>finally<|message|>Hi<|end|><|start|>assistant" + ANSWER + "<|endofprompt|>"
    turn_reader.push(GenerationChunk((*encode_with_control(text),)))
    assert turn_reader.repairs == [Repair.UNKNOWN_CHANNEL]
    turn_reader.finish("stop")
    assert turn_reader.repairs == [Repair.UNKNOWN_CHANNEL, Repair.CONTROL_IN_BODY]


# Tokens that the server inserts


def inserted(*, logprobs: bool = False) -> tuple[TurnReader, list[TurnEvent]]:
    """A reader of reasoning that the server ended before the answer, and all events."""
    thought, answer = "<|channel|>analysis<|message|>One", f"{ANSWER}Hi<|return|>"
    turn_reader = reader()
    events: list[TurnEvent] = []
    for chunk in chunks(encode_with_control(thought), logprobs=logprobs):
        events += turn_reader.push(chunk)
    events += turn_reader.insert(NEXT_MESSAGE, Repair.REPETITION)
    for chunk in chunks(encode_with_control(answer), logprobs=logprobs):
        events += turn_reader.push(chunk)
    return turn_reader, events


def test_a_message_that_inserted_tokens_end_has_the_repair() -> None:
    turn_reader, events = inserted()
    assert [(each.message.content, each.repairs) for each in closed(events)] == [
        ("One", (Repair.REPETITION,)),
        ("Hi", ()),
    ]
    assert turn_reader.repairs == [Repair.REPETITION]


def test_half_a_character_that_inserted_tokens_end_is_shown() -> None:
    turn_reader = reader()
    half = encode_with_control("<|channel|>analysis<|message|>🫨")[:-1]
    turn_reader.push(GenerationChunk((*half,)))
    events = turn_reader.insert(NEXT_MESSAGE, Repair.REPETITION)
    assert text(events, 0) == "\N{REPLACEMENT CHARACTER}"
    assert closed(events)[0].repairs == (Repair.INVALID_UTF8, Repair.REPETITION)


def test_inserted_tokens_are_not_counted() -> None:
    turn_reader, _ = inserted()
    sampled = encode_with_control(f"<|channel|>analysis<|message|>One{ANSWER}Hi<|return|>")
    assert turn_reader.usage == Usage(10, output=len(sampled), reasoning=1)


def test_text_after_inserted_tokens_has_its_own_logprobs() -> None:
    _, events = inserted(logprobs=True)
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert [decode([each.token_id for each in delta.logprobs]) for delta in deltas] == ["One", "Hi"]


# Stop strings


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("body", "stop"),
    [("One two three four", "two th"), ("日本語のテキスト", "語の"), ("a🧀b", "🧀")],
)
def test_a_stop_string_ends_the_answer_before_it(body: str, stop: str, size: int) -> None:
    events = read(f"{THINK}{ANSWER}{body}<|return|>", stop=(stop,), size=size)
    before = body[: body.index(stop)]
    assert text(events, 1) == before
    assert closed(events)[-1].message.content == before
    assert closed(events)[-1].complete
    assert closed(events)[-1].message.tokens is None
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reason == "stop"


def test_a_stop_string_wins_over_the_token_budget() -> None:
    finished = read(f"{ANSWER}a b", stop=("b",), reason="length")[-1]
    assert isinstance(finished, TurnFinished)
    assert finished.reason == "stop"


def test_stop_strings_hold_for_the_answer_alone() -> None:
    preamble = "<|channel|>commentary<|message|>stop<|end|><|start|>assistant"
    thought = THINK.replace("One", "stop")
    call = CALL.replace("1", '"stop"')
    events = read(f"{thought}{preamble}{call}", stop=("stop",))
    assert [text(events, index) for index in range(3)] == [
        "stop and two.",
        "stop",
        '{"a":"stop"}',
    ]


def test_a_function_called_on_the_final_channel_is_no_answer() -> None:
    events = read("<|channel|>final to=functions.f<|message|>stop<|call|>", stop=("stop",))
    assert text(events, 0) == "stop"


def test_withheld_text_is_sent_when_no_stop_string_comes() -> None:
    events = read(f"{ANSWER}one tw<|return|>", stop=("two",))
    assert text(events, 0) == "one tw"
    assert closed(events)[0].message.content == "one tw"
    assert closed(events)[0].message.tokens is not None


def test_withheld_text_is_sent_when_the_budget_is_spent() -> None:
    assert text(read(f"{ANSWER}one tw", stop=("two",), reason="length"), 0) == "one tw"


def test_each_answer_is_searched_anew() -> None:
    second = "<|start|>assistant<|channel|>final<|message|>o<|return|>"
    events = read(f"{ANSWER}tw<|end|>{second}", stop=("two",))
    assert [text(events, 0), text(events, 1)] == ["tw", "o"]


# Logprobs


def header_tokens(header: str) -> int:
    return len(encode_with_control(header))


def test_each_text_has_the_logprobs_of_its_own_tokens() -> None:
    events = read(f"{ANSWER}one two three<|return|>", logprobs=True)
    first = -header_tokens(ANSWER)
    assert logprobs_of(events) == [(first,), (first - 1,), (first - 2,)]


def test_logprobs_do_not_depend_on_the_chunks() -> None:
    completion = f"{THINK}{ANSWER}one two three stop four<|return|>"
    whole = read(completion, stop=("stop",), logprobs=True)
    assert read(completion, stop=("stop",), logprobs=True, size=100)[:-1] == whole[:-1]


def test_a_character_of_several_tokens_has_all_their_logprobs() -> None:
    tokens = encode_with_control(f"{ANSWER}🫨<|return|>")
    count = len(tokens) - header_tokens(ANSWER) - 1
    assert count > 1
    first = header_tokens(ANSWER)
    assert logprobs_of(read(tokens, logprobs=True)) == [
        tuple(-float(first + n) for n in range(count))
    ]


@pytest.mark.parametrize("stop", [(), ("never",)])
@pytest.mark.parametrize(
    "completion",
    [
        "<|channel|>json<|constrain|><|channel|>hello there<|return|>",
        f"{ANSWER}one <|endofprompt|>two<|return|>",
    ],
)
def test_control_tokens_in_a_text_have_no_logprobs(completion: str, stop: tuple[str, ...]) -> None:
    deltas = [
        each for each in read(completion, stop=stop, logprobs=True) if isinstance(each, TextDelta)
    ]
    sampled = [entry.token_id for each in deltas for entry in each.logprobs]
    assert decode(sampled) == "".join(each.text for each in deltas)


def test_withheld_text_brings_its_logprobs_once() -> None:
    first = -header_tokens(ANSWER)
    events = read(f"{ANSWER}one two three<|return|>", stop=(" two x", "three x"), logprobs=True)
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        "one",
        " two ",
        "three",
    ]
    assert logprobs_of(events) == [(first,), (first - 1, first - 2), ()]


def test_text_withheld_to_the_end_brings_no_other_logprobs() -> None:
    first = -header_tokens(ANSWER)
    events = read(f"{THINK}{ANSWER}one two<|return|>", stop=(" two x",), logprobs=True)
    first -= header_tokens(THINK)
    assert logprobs_of(events)[-2:] == [(first,), (first - 1,)]


def test_tokens_of_a_stop_string_have_no_logprobs_in_the_answer() -> None:
    first = -header_tokens(ANSWER)
    events = read(f"{ANSWER}one two three<|return|>", stop=(" two",), logprobs=True)
    assert logprobs_of(events) == [(first,)]


def test_withheld_tokens_that_become_a_stop_string_have_no_logprobs_in_the_answer() -> None:
    first = -header_tokens(ANSWER)
    events = read(f"{ANSWER}x a a b<|return|>", stop=(" a b",), logprobs=True)
    assert logprobs_of(events) == [(first,), (first - 1,)]


def test_without_logprobs_there_are_none() -> None:
    assert set(logprobs_of(read(f"{ANSWER}one two<|return|>"))) == {()}


# Usage


def test_tokens_are_counted() -> None:
    thought = "One and two."
    completion = encode_with_control(f"{THINK}{ANSWER}Hi<|return|>")
    assert usage(read(completion)) == Usage(
        10, output=len(completion), reasoning=len(encode_with_control(thought))
    )


def test_reasoning_is_counted_where_the_budget_cut_it_off() -> None:
    events = read("<|channel|>analysis<|message|>One two three", reason="length")
    assert usage(events).reasoning == 3
    assert not closed(events)[0].complete


def test_a_call_on_the_analysis_channel_is_no_reasoning() -> None:
    events = read("<|channel|>analysis to=python code<|message|>1+1<|call|>")
    assert usage(events).reasoning == 0


def test_all_reasoning_is_counted_when_a_stop_string_ends_the_answer() -> None:
    assert usage(read(f"{THINK}{ANSWER}stop", stop=("stop",))).reasoning == 4


@pytest.mark.parametrize("order", [(7, None), (None, 7), (7, 0)])
def test_any_chunk_may_have_the_cached_tokens(order: tuple[int | None, ...]) -> None:
    turn_reader = reader()
    for cached in order:
        turn_reader.push(GenerationChunk((), cached_tokens=cached))
    (finished,) = turn_reader.finish("stop")
    assert usage([finished]).cached == 7


def test_prompt_tokens_are_the_prompts() -> None:
    (finished,) = reader(prompt_tokens=99).finish("length")
    assert finished == TurnFinished("length", Usage(99))


def read_opened(completion: str, size: int) -> list[TurnEvent]:
    """All events of a completion after a prompt that ends with the header of the answer.

    The first chunk has no token, as those of engines that report the cached tokens early.
    """
    prefix = (*encode_with_control("<|start|>assistant"), *encode_with_control(ANSWER))
    turn_reader = TurnReader(Parser(prefix=prefix), 10, opened=True)
    events = turn_reader.push(GenerationChunk((), cached_tokens=7))
    for chunk in chunks(encode_with_control(completion), size):
        events += turn_reader.push(chunk)
    return [*events, *turn_reader.finish("stop")]


@pytest.mark.parametrize("size", [1, 99])
def test_an_answer_that_the_prompt_begins_starts_with_its_text(size: int) -> None:
    started, *others = read_opened("Yes.<|return|>", size)
    assert started == MessageStarted(0, Header(Channel.FINAL))
    assert text(others, 0) == "Yes."


@pytest.mark.parametrize("size", [1, 99])
def test_an_empty_answer_that_the_prompt_begins_is_left_out_before_another_message(
    size: int,
) -> None:
    events = read_opened("<|channel|>analysis<|message|>Hm.<|end|>", size)
    assert [event.index for event in events if isinstance(event, MessageStarted)] == [1]
    assert [each.message.content for each in closed(events)] == ["Hm."]


@pytest.mark.parametrize("size", [1, 99])
def test_an_empty_answer_that_the_prompt_begins_is_shown_where_it_is_all(size: int) -> None:
    started, ended, _ = read_opened("<|return|>", size)
    assert isinstance(started, MessageStarted)
    assert isinstance(ended, MessageClosed)


@pytest.mark.parametrize("size", [1, 99])
def test_an_empty_message_after_an_answer_that_the_prompt_begins_hides_nothing(size: int) -> None:
    more = "<|end|><|start|>assistant" + ANSWER
    events = read_opened(f"Hello{more}{more}Bye<|return|>", size)
    assert [event.index for event in events if isinstance(event, MessageStarted)] == [0, 1, 2]
    assert [each.message.content for each in closed(events)] == ["Hello", "", "Bye"]
