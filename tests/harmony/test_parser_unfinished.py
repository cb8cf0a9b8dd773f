"""Headers without a `<|message|>`: what is text of them, and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony import vocab
from harmony.events import ContentDelta, Header, MessageEnded, MessageStarted, Repair
from harmony.messages import Channel
from harmony.parser import Parser
from harmony.tokenizer import decode, encode, encode_with_control
from tests.harmony.parsing import events_of, messages

DECLARED = ("functions.f", "functions.fj", "browser.search", "python")


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "<|return|>",
        "<|channel|>",
        "<|channel|>fin<|return|>",
        "<|channel|>final<|return|>",
        "<|channel|>commentary to=functions.f <|constrain|>json<|call|>",
        "<|channel|>commentary to=functions.f <|constrain|>js<|call|>",
        " to=<|return|>",
        " t<|return|>",
        "<|start|>assis<|return|>",
        " to=functions.f<|channel|>comm",
        "<|channel|>final <|constrain|>js",
        "<|end|><|start|>assistant<|channel|>",
        "<|channel|>commentary json to=functions.x",
        "<|channel|>commentary <|constrain|>json to=functions.x<|call|>",
        "<|channel|>commentary <|constrain|>json to=functions.x ",
        "<|channel|>commentary to=functions.f  <|constrain|>json<|call|>",
        "<|channel|>commentary to=functions.f   <|return|>",
        " to=functions.f  <|call|>",
        "<|channel|>final\n\n<|return|>",
    ],
)
def test_a_header_alone_is_no_message(completion: str) -> None:
    assert messages(completion) == []


STRANDED = {
    "Hello<|return|>": (Header(Channel.FINAL), "Hello"),
    "assistants help.<|return|>": (Header(Channel.FINAL), "assistants help."),
    "Hello<|channel|>final<|return|>": (Header(Channel.FINAL), "Hello"),
    "Hello<|constrain|>json<|return|>": (Header(Channel.FINAL), "Hello"),
    "Hello<|end|><|return|>": (Header(Channel.FINAL), "Hello"),
    "<|channel|>final Hello<|return|>": (Header(Channel.FINAL), " Hello"),
    "<|channel|>analysis I think<|return|>": (Header(Channel.ANALYSIS), " I think"),
    '<|channel|>final <|constrain|>json{"a":1}<|return|>': (
        Header(Channel.FINAL, None, "json"),
        '{"a":1}',
    ),
    ' to=functions.f<|channel|>commentary json{"a":1}<|call|>': (
        Header(Channel.COMMENTARY, "functions.f", "json"),
        '{"a":1}',
    ),
    ' to=functions.f{"a":1}<|call|>': (Header(Channel.COMMENTARY, "functions.f"), '{"a":1}'),
    '<|channel|>commentary json to=functions.f{"a":1}<|call|>': (
        Header(Channel.COMMENTARY, "functions.f", "json"),
        '{"a":1}',
    ),
    '<|channel|>commentary <|constrain|>json to=functions.f {"a":1}<|call|>': (
        Header(Channel.COMMENTARY, "functions.f", "json"),
        ' {"a":1}',
    ),
    '<|channel|>commentary to=functions.f  <|constrain|>json{"a":1}<|call|>': (
        Header(Channel.COMMENTARY, "functions.f", "json"),
        '{"a":1}',
    ),
    '<|channel|>commentaryto=functions.f{"a":1}<|call|>': (
        Header(Channel.COMMENTARY, "functions.f"),
        '{"a":1}',
    ),
    "<|channel|>finally, done<|return|>": (Header(Channel.FINAL), "finally, done"),
    "<|channel|>analysis<|channel|>finally, done<|return|>": (
        Header(Channel.ANALYSIS),
        "finally, done",
    ),
    "<|channel|>finalDone<|return|>": (Header(Channel.FINAL), "Done"),
}


@pytest.mark.parametrize(("completion", "expected"), STRANDED.items())
def test_a_header_that_the_token_limit_ended_gives_up_its_text(
    completion: str, expected: tuple[Header, str]
) -> None:
    [message] = messages(completion.removesuffix("<|return|>").removesuffix("<|call|>"), DECLARED)
    assert (message.header, message.content) == expected
    assert Repair.HEADERLESS_TEXT in message.repairs
    assert message.complete is completion.startswith("Hello<|end|>")


@pytest.mark.parametrize(
    "completion",
    [
        "Hello",
        "Hello<|end|>",
        "Hello<|start|>",
        "Hello<|start|>assistant",
        "Hello<|end|><|start|>assistant<|channel|>fin",
        "Hello<|channel|>fin",
        "Hello<|channel|>final <|constrain|>js",
        "Hello<|constrain|>js",
        "<|channel|><|end|>Hello<|end|><|start|>assis",
        "assistant<|channel|>final<|start|>assistantHello",
    ],
)
@pytest.mark.parametrize("end", ["", "<|return|>"])
def test_text_that_strayed_last_is_not_lost(completion: str, end: str) -> None:
    [message] = messages(completion + end)
    assert (message.header, message.content) == (Header(Channel.FINAL), "Hello")


def test_texts_without_messages_stay_in_their_channels() -> None:
    first, second = messages(
        "<|channel|>analysis I think.<|end|><|start|>assistant<|channel|>final So it is.<|return|>"
    )
    assert (first.header.channel, first.content, first.end) == (
        *(Channel.ANALYSIS, " I think."),
        vocab.END,
    )
    assert (second.header.channel, second.content) == (Channel.FINAL, " So it is.")
    assert second.end == vocab.RETURN


def test_texts_without_messages_have_their_own_spans() -> None:
    tokens = encode_with_control("Hello there<|end|><|start|>assistant now then")
    deltas = [event for event in events_of(tokens) if isinstance(event, ContentDelta)]
    assert [(delta.text, delta.span) for delta in deltas] == [
        ("Hello there", (0, 2)),
        (" now then", (5, 7)),
    ]


SPANS = {
    "<|channel|>final Hi": (" Hi", (2, 3)),
    "<|channel|>commentary to=functions.f json{}": ("{}", (8, 9)),
    "<|channel|>analysis<|channel|>final Hi": (" Hi", (4, 5)),
    "<|start|>assistant<|channel|>final Hi": (" Hi", (4, 5)),
    " to=functions.größe<|channel|>commentary{}": ("{}", (8, 9)),
}


@pytest.mark.parametrize(("completion", "expected"), SPANS.items())
def test_the_span_of_text_without_a_message_begins_after_its_header(
    completion: str, expected: tuple[str, tuple[int, int]]
) -> None:
    tokens = encode_with_control(completion)
    [delta] = [event for event in events_of(tokens) if isinstance(event, ContentDelta)]
    assert (delta.text, delta.span) == expected
    assert decode(tokens[slice(*delta.span)]) == delta.text


def test_the_span_of_text_begins_no_earlier_than_the_sampling() -> None:
    prefix = encode_with_control("<|start|>assistant<|channel|>final")
    [delta] = [e for e in events_of(encode(" Hi"), prefix=prefix) if isinstance(e, ContentDelta)]
    assert delta.span == (0, 1)


def test_text_after_a_message_has_the_span_of_its_own_tokens() -> None:
    tokens = encode_with_control("<|channel|>analysis<|message|>x<|end|>Hello there<|return|>")
    deltas = [event for event in events_of(tokens) if isinstance(event, ContentDelta)]
    assert (deltas[-1].text, deltas[-1].span) == ("Hello there", (5, 7))


@pytest.mark.parametrize(
    "completion",
    ["Hello<|end|> now then", "<|channel|>final<|message|>x<|end|>x<|start|>assistant now then"],
)
def test_text_after_stray_text_follows_stray_tokens(completion: str) -> None:
    *_, stray, last = messages(completion)
    assert Repair.STRAY_TOKENS not in stray.repairs
    assert Repair.STRAY_TOKENS in last.repairs


@pytest.mark.parametrize(("completion", "expected"), STRANDED.items())
def test_a_header_that_a_stop_token_ended_gives_up_its_text(
    completion: str, expected: tuple[Header, str]
) -> None:
    [message] = messages(completion, DECLARED)
    assert (message.header, message.content) == expected
    assert Repair.HEADERLESS_TEXT in message.repairs
    assert message.end in vocab.STOP_TOKENS


def test_text_without_a_header_has_the_span_of_all_that_was_sampled() -> None:
    started, delta, ended = events_of([*encode("Hello there"), vocab.RETURN])
    assert started == MessageStarted(0, Header(Channel.FINAL))
    assert delta == ContentDelta(0, "Hello there", (0, 2))
    assert isinstance(ended, MessageEnded)
    assert ended.body_tokens == 2


def test_text_without_a_header_is_withheld_until_a_stop_token() -> None:
    parser = Parser()
    assert not parser.push_many(encode("Hello there"))
    assert parser.push(vocab.RETURN)


@given(st.text(min_size=1))
def test_any_text_without_a_header_is_the_answer(text: str) -> None:
    completion = [*encode(text), vocab.RETURN]
    is_header = text.startswith(" to=") or any(
        word.startswith(text) for word in (" to=", " json", " code", " text", "assistant")
    )
    contents = [message.content for message in messages(completion)]
    assert is_header or contents == [text.encode("utf-8", "replace").decode()]


def test_the_last_of_many_headers_without_messages_has_the_text_of_all_others() -> None:
    found = messages("<|start|>x<|end|>" * 1_000 + "<|return|>")
    assert len(found) < 100
    assert "".join(message.content for message in found) == "x" * 1_000


def test_a_header_after_many_without_messages_is_read() -> None:
    [message] = messages(
        "<|start|>x<|end|>" * 1_000 + "<|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    )
    assert (message.header, message.content) == (Header(Channel.FINAL), "Hi")


@pytest.mark.parametrize("text", ["é漢😀 word" * 300, "a" * 3_000, " <|channel|>final x" * 300])
def test_a_long_text_without_a_header_comes_in_deltas_of_few_tokens(text: str) -> None:
    """What reads them may take long for each token, and others have to run in between."""
    events = events_of(encode_with_control(text))
    (ended,) = (event for event in events if isinstance(event, MessageEnded))
    deltas = [event for event in events if isinstance(event, ContentDelta)]
    assert "".join(delta.text for delta in deltas) == ended.content
    assert all(delta.text and 0 < delta.span[1] - delta.span[0] <= 64 for delta in deltas)


def test_the_deltas_of_a_long_text_have_their_own_tokens() -> None:
    tokens = encode("é漢😀 word" * 300)
    deltas = [event for event in events_of(tokens) if isinstance(event, ContentDelta)]
    assert len(deltas) > 3
    assert deltas[-1].span[1] == len(tokens)
    for delta in deltas:
        whole_characters = decode(tokens[slice(*delta.span)]).strip("\N{REPLACEMENT CHARACTER}")
        assert whole_characters in delta.text
