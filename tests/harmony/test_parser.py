import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony import vocab
from harmony.events import ContentDelta, Header, MessageEnded, MessageStarted, Repair
from harmony.messages import Channel
from harmony.parser import ASSISTANT, Parser
from harmony.tokenizer import encode, encode_with_control
from tests.harmony.parsing import events_of, merged, messages

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("malformed.jsonl").read_text("utf-8").splitlines()
]
FIELDS = {
    Channel.ANALYSIS: "reasoning",
    Channel.COMMENTARY: "commentary",
    Channel.FINAL: "content",
}
ENDS = vocab.STOP_TOKENS | {vocab.END}
EURO = [token for byte in "€".encode() for token in [vocab.ranks()[bytes([byte])]]]


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    """What a case's completion comes out as, in the cases' own terms."""
    declared = [name if "." in name else f"functions.{name}" for name in case["declared_tools"]]
    texts: dict[str, list[str]] = {field: [] for field in FIELDS.values()}
    calls = []
    for message in messages(case["completion"], declared):
        if message.header.recipient is not None:
            calls.append({"recipient": message.header.recipient, "arguments": message.content})
        else:
            texts[FIELDS[message.header.channel]].append(message.content)
    ended = encode_with_control(case["completion"])[-1] in ENDS
    return {
        **{field: "".join(parts) if parts else None for field, parts in texts.items()},
        "tool_calls": calls,
        "status": "completed" if ended else "incomplete",
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_completions_seen_in_the_wild_come_out_as_meant(case: dict[str, Any]) -> None:
    assert outcome(case) == case["expect"]


LEGAL_HEADERS = {
    "<|channel|>analysis": Header(Channel.ANALYSIS),
    "<|channel|>commentary": Header(Channel.COMMENTARY),
    "<|channel|>final": Header(Channel.FINAL),
    "<|channel|>final <|constrain|>json": Header(Channel.FINAL, None, "json"),
    "<|channel|>final json": Header(Channel.FINAL, None, "json"),
    "<|channel|>commentary to=functions.f <|constrain|>json": Header(
        Channel.COMMENTARY, "functions.f", "json"
    ),
    "<|channel|>commentary to=functions.f<|constrain|>json": Header(
        Channel.COMMENTARY, "functions.f", "json"
    ),
    "<|channel|>commentary to=functions.f json": Header(Channel.COMMENTARY, "functions.f", "json"),
    "<|channel|>commentary to=functions.f": Header(Channel.COMMENTARY, "functions.f"),
    " to=functions.f<|channel|>commentary json": Header(Channel.COMMENTARY, "functions.f", "json"),
    " to=functions.f<|channel|>commentary <|constrain|>json": Header(
        Channel.COMMENTARY, "functions.f", "json"
    ),
    " to=python<|channel|>analysis code": Header(Channel.ANALYSIS, "python", "code"),
    "<|channel|>analysis to=browser.search code": Header(
        Channel.ANALYSIS, "browser.search", "code"
    ),
    "<|channel|>commentary to=container.exec json": Header(
        Channel.COMMENTARY, "container.exec", "json"
    ),
}
DECLARED = ("functions.f", "functions.fj", "browser.search", "python")


@pytest.mark.parametrize(("header", "expected"), LEGAL_HEADERS.items())
def test_a_legal_header_is_read_without_repair(header: str, expected: Header) -> None:
    end = "<|end|>" if expected.recipient is None else "<|call|>"
    [message] = messages(f"{header}<|message|>x{end}", DECLARED)
    assert (message.header, message.repairs) == (expected, ())


RECIPIENT_PLACES = {
    "role": " to={to}<|channel|>{channel}{type}",
    "channel": "<|channel|>{channel} to={to}{type}",
}
TYPE_FORMS = {
    "": None,
    " code": "code",
    " json": "json",
    " <|constrain|>code": "code",
    "<|constrain|>code": "code",
    " <|constrain|>json": "json",
    "<|constrain|>json": "json",
}


@pytest.mark.parametrize("to", ["python", "browser.search", "functions.f"])
@pytest.mark.parametrize("channel", [Channel.ANALYSIS, Channel.COMMENTARY])
@pytest.mark.parametrize("place", RECIPIENT_PLACES)
@pytest.mark.parametrize("form", TYPE_FORMS)
def test_a_call_is_read_in_every_form_of_its_header(
    to: str, channel: Channel, place: str, form: str
) -> None:
    header = RECIPIENT_PLACES[place].format(to=to, channel=channel, type=form)
    [message] = messages(f"{header}<|message|>x = 1<|call|>", DECLARED)
    assert message.header == Header(channel, to, TYPE_FORMS[form])
    assert (message.content, message.repairs, message.complete) == ("x = 1", (), True)


MALFORMED_HEADERS = {
    "<|channel|>commentary to=functions.fjson": ("functions.f", "json", Repair.GLUED_RECIPIENT),
    "<|channel|>commentary to=functions.f?": ("functions.f", None, Repair.GLUED_RECIPIENT),
    "<|channel|>commentary to=functions.fcommentary": (
        "functions.f",
        None,
        Repair.GLUED_RECIPIENT,
    ),
    "<|channel|>commentary to=fcode": ("functions.f", "code", Repair.GLUED_RECIPIENT),
    "<|channel|>commentary to=function.f": ("functions.f", None, Repair.RENAMED_RECIPIENT),
    "<|channel|>commentary to=functions.python": ("python", None, Repair.RENAMED_RECIPIENT),
    "<|channel|>commentary to=functions.browser.search": (
        "browser.search",
        None,
        Repair.RENAMED_RECIPIENT,
    ),
    "<|channel|>commentary to=functions.fassistant": (
        "functions.f",
        None,
        Repair.GLUED_RECIPIENT,
    ),
    "<|channel|>commentary to=pythoncode": ("python", "code", Repair.GLUED_RECIPIENT),
    "<|channel|>commentary to=python<|constrain|>code to=python": (
        "python",
        "code",
        Repair.REPEATED_RECIPIENT,
    ),
    "<|channel|>commentary to=search": ("browser.search", None, Repair.RENAMED_RECIPIENT),
    "<|channel|>commentaryto= functions.f": ("functions.f", None, Repair.HEADER_WORDS),
    "<|channel|>commentary to f <|constrain|>json": (
        "functions.f",
        "json",
        Repair.MISPLACED_RECIPIENT,
    ),
    "<|channel|>commentary recipient: f<|constrain|>json": (
        "functions.f",
        "json",
        Repair.MISPLACED_RECIPIENT,
    ),
    "<|channel|>commentary functions f json": (
        "functions.f",
        "json",
        Repair.MISPLACED_RECIPIENT,
    ),
    " tool f<|channel|>commentary json": ("functions.f", "json", Repair.MISPLACED_RECIPIENT),
    "<|channel|>commentary functions.f json": (
        "functions.f",
        "json",
        Repair.MISPLACED_RECIPIENT,
    ),
    "<|channel|>commentary <|constrain|>json to=functions.f": (
        "functions.f",
        "json",
        Repair.HEADER_WORDS,
    ),
    "<|channel|>commentary to=assistant to=functions.f": (
        "functions.f",
        None,
        Repair.REPEATED_RECIPIENT,
    ),
    "<|channel|>commentary to=functions.f the json": ("functions.f", "json", Repair.HEADER_WORDS),
    "<|channel|>commentary to=functions.f json code": ("functions.f", "json", Repair.HEADER_WORDS),
    " to=functions.f": ("functions.f", None, Repair.MISSING_CHANNEL),
    "<|channel|>commentary to=functions.f<|reserved_200013|> json": (
        "functions.f",
        "json",
        Repair.HEADER_WORDS,
    ),
    "<|channel|>commentary\nto=functions.f": ("functions.f", None, Repair.HEADER_WORDS),
}


@pytest.mark.parametrize(("header", "expected"), MALFORMED_HEADERS.items())
def test_a_malformed_call_header_is_read_as_meant(
    header: str, expected: tuple[str, str | None, Repair]
) -> None:
    recipient, content_type, repair = expected
    [message] = messages(f"{header}<|message|>x<|call|>", DECLARED)
    assert message.header == Header(Channel.COMMENTARY, recipient, content_type)
    assert repair in message.repairs


def test_a_header_with_two_recipients_calls_the_first() -> None:
    header = " to=functions.f<|channel|>commentary to=python"
    [message] = messages(f"{header}<|message|>x<|call|>", DECLARED)
    assert message.header.recipient == "functions.f"
    assert Repair.REPEATED_RECIPIENT in message.repairs


def test_a_namespace_alone_is_no_function_with_an_empty_name() -> None:
    [message] = messages("<|channel|>commentary to=functions.<|message|>x<|call|>", DECLARED)
    assert message.header.recipient == "functions"


@pytest.mark.parametrize(
    "text", ["I should search first. ", " I use python ", "f or g ", "some text "]
)
@pytest.mark.parametrize("channel", Channel)
def test_text_before_a_channel_calls_no_tool_that_it_mentions(text: str, channel: Channel) -> None:
    [message] = messages(f"{text}<|channel|>{channel}<|message|>x<|end|>", DECLARED)
    assert message.header == Header(channel)
    assert Repair.HEADER_WORDS in message.repairs


def test_text_after_a_channel_calls_no_tool_that_it_mentions() -> None:
    [message] = messages("<|channel|>analysis I use python code<|message|>x<|end|>", DECLARED)
    assert message.header == Header(Channel.ANALYSIS)


def test_a_missing_start_makes_no_call_of_the_text_before_the_channel() -> None:
    completion = "<|channel|>analysis<|message|>x<|end|>Let me search<|channel|>final<|message|>y"
    assert [each.header for each in messages(completion, DECLARED)] == [
        Header(Channel.ANALYSIS),
        Header(Channel.FINAL),
    ]


def test_a_misspelt_role_is_one_repair() -> None:
    first, second = messages(
        "<|channel|>analysis<|message|>x<|end|><|start|>assistnt<|channel|>final<|message|>y"
    )
    assert (first.repairs, second.repairs) == ((), (Repair.UNEXPECTED_ROLE,))


@pytest.mark.parametrize(
    ("header", "recipient"),
    [
        (" python<|channel|>analysis", "python"),
        (" search<|channel|>commentary", "browser.search"),
        (" I call functions.f now<|channel|>commentary", "functions.f"),
    ],
)
def test_a_tool_alone_or_with_its_namespace_is_called(header: str, recipient: str) -> None:
    [message] = messages(f"{header}<|message|>x<|call|>", DECLARED)
    assert message.header.recipient == recipient


CHANNELS = {
    "<|channel|>Final": (Channel.FINAL, Repair.UNKNOWN_CHANNEL),
    "<|channel|>analytics": (Channel.ANALYSIS, Repair.UNKNOWN_CHANNEL),
    "<|channel|>thoughts": (Channel.FINAL, Repair.UNKNOWN_CHANNEL),
    "<|channel|>analysis<|channel|>final": (Channel.FINAL, Repair.REPEATED_CHANNEL),
    "<|channel|>analysis<|channel|>": (Channel.ANALYSIS, Repair.REPEATED_CHANNEL),
    "analysis": (Channel.ANALYSIS, Repair.UNEXPECTED_ROLE),
    "": (Channel.FINAL, Repair.MISSING_CHANNEL),
}


@pytest.mark.parametrize(("header", "expected"), CHANNELS.items())
def test_a_malformed_channel_goes_to_the_nearest(
    header: str, expected: tuple[Channel, Repair]
) -> None:
    [message] = messages(f"{header}<|message|>x<|end|>")
    assert (message.header.channel, message.repairs) == (expected[0], (expected[1],))
    assert message.content == "x"


def test_a_tool_called_like_a_channels_stem_is_a_tool() -> None:
    [message] = messages("<|channel|>commit<|message|>{}<|call|>", ["functions.commit"])
    assert message.header == Header(Channel.COMMENTARY, "functions.commit")


def test_a_function_comes_before_a_builtin_of_the_same_bare_name() -> None:
    declared = ["browser.search", "functions.search"]
    [message] = messages("<|channel|>commentary to=search<|message|>{}<|call|>", declared)
    assert message.header.recipient == "functions.search"


@pytest.mark.parametrize("word", ["user", "tool", "system", "developer", "all", "s"])
def test_a_tool_is_not_called_by_a_longer_name_that_ends_in_a_word_of_headers(word: str) -> None:
    completion = f"<|channel|>commentary to=functions.delete{word}<|message|>{{}}<|call|>"
    [message] = messages(completion, ["functions.delete"])
    assert message.header.recipient == f"functions.delete{word}"


ODD_NAMES = (
    "functions.srv__fetch@v2",
    "functions.srv__fetch",
    "functions.cost($)",
    "functions.a~b",
)
AFTER_NAME = ("", " ", " <|constrain|>json", "<|constrain|>json", " json", "  <|constrain|>js")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_declared_name_of_any_characters_is_legal(name: str) -> None:
    for header in (
        f"<|channel|>commentary to={name} json",
        f" to={name}<|channel|>commentary json",
    ):
        [message] = messages(f"{header}<|message|>{{}}<|call|>", ODD_NAMES)
        assert message.header == Header(Channel.COMMENTARY, name, "json")
        assert message.repairs == ()


@pytest.mark.parametrize("after", AFTER_NAME)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_declared_name_of_any_characters_is_no_text(name: str, after: str) -> None:
    assert messages(f"<|channel|>commentary to={name}{after}", ODD_NAMES) == []
    assert messages(f"<|channel|>commentary to={name}{after}<|call|>", ODD_NAMES) == []


def test_a_text_may_follow_a_declared_name_of_any_characters() -> None:
    for name in ODD_NAMES:
        [message] = messages(f'<|channel|>commentary to={name}{{"a":1}}<|call|>', ODD_NAMES)
        assert (message.header.recipient, message.content) == (name, '{"a":1}')


def test_another_namespaces_tool_is_not_taken_for_a_declared_one() -> None:
    completion = "<|channel|>commentary to=repo_browser.f<|message|>{}<|call|>"
    [message] = messages(completion, DECLARED)
    assert (message.header.recipient, message.repairs) == ("repo_browser.f", ())


def test_a_message_of_another_author_is_no_answer() -> None:
    first, second = messages(
        "<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>And now?<|end|>"
    )
    assert first.repairs == ()
    assert second.header.channel is Channel.ANALYSIS
    assert second.repairs == (Repair.UNEXPECTED_ROLE, Repair.MISSING_CHANNEL)


@pytest.mark.parametrize(
    ("completion", "repairs"),
    [
        ("<|channel|>final<|message|>x<|return|>", ()),
        ("<|channel|>final<|message|>x<|end|>", ()),
        ("<|channel|>final<|message|>x<|call|>", (Repair.UNEXPECTED_END,)),
        ("<|channel|>final<|message|>x<|endoftext|>", (Repair.UNEXPECTED_END,)),
        ("<|channel|>analysis<|message|>x<|return|>", (Repair.UNEXPECTED_END,)),
        ("<|channel|>final<|message|>x<|start|>", (Repair.CONTROL_IN_BODY,)),
        ("<|channel|>final<|message|>x", ()),
    ],
)
def test_a_message_has_to_end_as_its_kind_does(completion: str, repairs: object) -> None:
    [message] = messages(completion)
    assert message.repairs == repairs


def test_a_message_without_text_is_one() -> None:
    [message] = messages("<|channel|>final<|message|><|return|>")
    assert (message.content, message.body_tokens, message.repairs) == ("", 0, ())


@pytest.mark.parametrize("control", ["<|message|>", "<|constrain|>json<|message|>"])
def test_a_body_that_a_control_token_broke_goes_on_in_its_channel(control: str) -> None:
    first, second = messages(f"<|channel|>analysis<|message|>a{control}b<|end|>")
    assert (first.content, first.repairs) == ("a", (Repair.CONTROL_IN_BODY,))
    assert (second.header.channel, second.content) == (Channel.ANALYSIS, "b")


@pytest.mark.parametrize("between", ["<|channel|>", "<|constrain|><|start|>assistant"])
def test_a_header_without_a_channel_in_a_body_of_reasoning_begins_the_answer(between: str) -> None:
    _, second = messages(f"<|channel|>analysis<|message|>a{between}<|message|>b<|return|>")
    assert (second.header.channel, second.content) == (Channel.FINAL, "b")


@pytest.mark.parametrize("token", [-1, 200018, 200500, vocab.VOCAB_SIZE, 2**80])
def test_a_token_of_no_meaning_is_left_out_of_a_body(token: int) -> None:
    body = [*encode("a"), token, *encode("b")]
    prefix = encode_with_control("<|start|>assistant<|channel|>final<|message|>")
    [message] = messages([*body, vocab.RETURN], prefix=prefix)
    assert (message.content, message.repairs) == ("ab", (Repair.CONTROL_IN_BODY,))


def test_a_character_in_pieces_is_one_delta_that_spans_them() -> None:
    parser = Parser(prefix=encode_with_control("<|start|>assistant<|channel|>final<|message|>"))
    events = [parser.push(token) for token in [*encode("a"), *EURO]]
    assert events == [
        [MessageStarted(0, Header(Channel.FINAL)), ContentDelta(0, "a", (0, 1))],
        [],
        [],
        [ContentDelta(0, "€", (1, 4))],
    ]


def test_a_withheld_piece_is_not_in_the_span_of_the_text_before() -> None:
    parser = Parser(prefix=encode_with_control("<|start|>assistant<|channel|>final<|message|>"))
    [_, first] = parser.push_many([*encode("a"), *EURO[:2]])
    [second] = parser.push_many([EURO[2], *encode(" b")])
    assert first == ContentDelta(0, "a", (0, 1))
    assert second == ContentDelta(0, "€ b", (1, 5))


def test_a_character_cut_off_is_a_replacement_character() -> None:
    started, delta, ended = events_of(
        [*encode_with_control("<|channel|>final<|message|>"), *EURO[:2]]
    )
    assert isinstance(started, MessageStarted)
    assert delta == ContentDelta(0, "\ufffd", (3, 5))
    assert isinstance(ended, MessageEnded)
    assert (ended.complete, ended.repairs) == (False, (Repair.INVALID_UTF8,))


def test_a_sampled_replacement_character_is_no_repair() -> None:
    [message] = messages("<|channel|>final<|message|>\ufffd<|return|>")
    assert (message.content, message.repairs) == ("\ufffd", ())


def test_bytes_of_one_message_do_not_run_into_the_next() -> None:
    header = encode_with_control("<|start|>assistant<|channel|>final<|message|>")
    first, second = messages([*header[2:], EURO[0], vocab.END, *header, *EURO[1:], vocab.END])
    assert (first.content, second.content) == ("\ufffd", "\ufffd\ufffd")


def test_what_the_prompt_gave_is_of_the_message_but_was_not_sampled() -> None:
    prefix = encode_with_control("<|start|>assistant<|channel|>final<|message|>")
    body = encode("Hello there")
    parser = Parser(prefix=prefix)
    started, delta = parser.push_many(body)
    [ended] = parser.push(vocab.RETURN)
    assert started == MessageStarted(0, Header(Channel.FINAL))
    assert delta == ContentDelta(0, "Hello there", (0, 2))
    assert isinstance(ended, MessageEnded)
    assert ended.tokens == (*prefix, *body, vocab.RETURN)
    assert ended.body_tokens == 2


def test_text_in_the_prefix_begins_the_message() -> None:
    prefix = encode_with_control("<|start|>assistant<|channel|>final<|message|>Once")
    started, from_prompt, sampled = Parser(prefix=prefix).push_many(encode(" more"))
    assert isinstance(started, MessageStarted)
    assert (from_prompt, sampled) == (
        ContentDelta(0, "Once", (0, 0)),
        ContentDelta(0, " more", (0, 1)),
    )


def test_messages_have_an_index_and_a_kind_when_their_header_ends() -> None:
    parser = Parser()
    header = encode_with_control("<|channel|>analysis<|message|>")
    assert not parser.push_many(header[:-1])
    assert parser.push(header[-1]) == [MessageStarted(0, Header(Channel.ANALYSIS))]
    events = parser.push_many(encode_with_control("a<|end|><|start|>assistant"))
    assert [event.index for event in events] == [0, 0]
    assert parser.push_many(encode_with_control("<|channel|>final<|message|>")) == [
        MessageStarted(1, Header(Channel.FINAL))
    ]


def test_the_prompt_ends_with_the_prefix() -> None:
    assert list(ASSISTANT) == encode_with_control("<|start|>assistant")


@given(
    st.lists(
        st.tuples(st.sampled_from([*LEGAL_HEADERS.items()]), st.text()), min_size=1, max_size=4
    )
)
def test_legal_harmony_comes_out_as_it_went_in(
    given_messages: list[tuple[tuple[str, Header], str]],
) -> None:
    completion: list[int] = []
    for (text, header), content in given_messages:
        end = vocab.END if header.recipient is None else vocab.CALL
        completion += encode_with_control(f"<|start|>assistant{text}<|message|>")
        completion += [*encode(content), end]
    parsed = messages(completion[len(ASSISTANT) :], DECLARED)
    assert [(message.header, message.content) for message in parsed] == [
        (header, content.encode("utf-8", "replace").decode())
        for (_, header), content in given_messages
    ]
    assert not any(message.repairs for message in parsed)
    assert [*ASSISTANT, *completion[len(ASSISTANT) :]] == [
        token for message in parsed for token in message.tokens
    ]


@given(st.lists(st.text()), st.integers(1, 9))
def test_deltas_of_any_chunks_join_to_the_content(texts: list[str], size: int) -> None:
    tokens = encode_with_control("<|channel|>final<|message|>")
    tokens += [token for text in texts for token in encode(text)]
    parser = Parser()
    events = [
        event
        for start in range(0, len(tokens), size)
        for event in parser.push_many(tokens[start : start + size])
    ]
    events += parser.finish()
    assert merged(events) == merged(events_of(tokens))
    ended = events[-1]
    assert isinstance(ended, MessageEnded)
    assert ended.content == "".join(e.text for e in events if isinstance(e, ContentDelta))
