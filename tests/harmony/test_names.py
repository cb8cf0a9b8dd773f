import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony import headers, names
from harmony.events import MessageEnded, Repair
from harmony.headers import Recipients
from harmony.messages import Author, Channel, Message, Role
from harmony.names import MAX_CHARACTERS, is_name, is_title, without_illegal_characters
from harmony.parser import Parser
from harmony.render import render_message
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import CALL, CHANNEL, CONSTRAIN, END, FIRST_SPECIAL, MESSAGE, START

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=12)  # lone surrogates too
NAMES = st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("<|>/\\:=.to"),
    min_size=1,
    max_size=12,
).filter(is_name)


@pytest.mark.parametrize(
    "name",
    [
        *("f", "get_weather", "mcp__server__tool-1", "files.read", "a/b:c", "Zoë", "Zoe\u0308"),
        *("李", "علي", "O'Brien", "a@b.c", "<|channel|>", "✅", "x" * MAX_CHARACTERS),
    ],
)
def test_a_name_is_a_word_of_any_script(name: str) -> None:
    assert is_name(name)
    assert is_title(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "\0", "a\0b", "\x1b[0m", "\x7f", "a\u200bb", "a\u200db", "\ufeffa", "a\u00adb"),
        *("a\u202eb", "\ud800", "a\ue000", "a\u0378", "x" * (MAX_CHARACTERS + 1)),
        *(f"a{end}b" for end in "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\u00a0\u3000\u2003"),
    ],
    ids=ascii,
)
def test_what_would_end_a_word_or_hide_in_it_is_in_no_name(name: str) -> None:
    assert not is_name(name)
    assert not is_title(name)


def test_a_title_may_have_plain_spaces() -> None:
    assert is_title("my format")
    assert not is_name("my format")
    assert not is_title("  ")


@given(ANY_TEXT)
def test_what_is_cut_is_a_name_or_nothing(text: str) -> None:
    assert without_illegal_characters(text) == "" or is_name(without_illegal_characters(text))
    assert not is_name(text) or without_illegal_characters(text) == text


def test_a_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def is_name(text: str) -> bool:
        tried.append(text)
        return True

    monkeypatch.setattr(names, "is_name", is_name)
    assert len(without_illegal_characters("ab" * 10_000)) == len(tried) == MAX_CHARACTERS


def test_of_a_long_text_the_beginning_stays() -> None:
    assert without_illegal_characters("ab" * MAX_CHARACTERS) == "ab" * (MAX_CHARACTERS // 2)


def parts(ids: list[int]) -> list[int | str]:
    """Control tokens, and the text between them."""
    found: list[int | str] = []
    words: list[int] = []
    for token in ids:
        if token < FIRST_SPECIAL:
            words.append(token)
        else:
            found += [decode(words), token] if words else [token]
            words = []
    return found


@given(NAMES)
def test_a_users_header_is_the_role_and_the_name(name: str) -> None:
    message = Message(Author(Role.USER, name), "hi")
    assert parts(render_message(message)) == [START, f"user:{name}", MESSAGE, "hi", END]


@given(NAMES)
def test_the_header_of_a_call_is_read_as_it_was_written(name: str) -> None:
    recipient = f"functions.{name}"
    message = Message(
        Author(Role.ASSISTANT), "{}", Channel.COMMENTARY, recipient, "<|constrain|>json"
    )
    ids = render_message(message)
    assert parts(ids) == [
        *(START, f"assistant to={recipient}", CHANNEL, "commentary ", CONSTRAIN, "json"),
        *(MESSAGE, "{}", CALL),
    ]
    words = ids[1 : ids.index(MESSAGE)]
    header = headers.read(words, Recipients([recipient]), Channel.FINAL).header
    assert (header.recipient, header.channel) == (recipient, Channel.COMMENTARY)
    assert header.content_type == "json"


@given(NAMES, st.sampled_from([" to={}<|channel|>commentary", "<|channel|>commentary to={}"]))
def test_a_header_that_is_cut_off_in_a_declared_name_is_no_message(name: str, form: str) -> None:
    recipient = f"functions.{name}"
    before, after = form.split("{}")
    for cut in range(1, len(recipient) + 1):
        parser = Parser([recipient])
        parser.push_many([*encode_with_control(before), *encode(recipient[:cut])])
        assert not parser.finish()
    parser = Parser([recipient])
    ids = [*encode_with_control(before), *encode(recipient), *encode_with_control(after)]
    parser.push_many(ids)
    events = [*parser.push_many([CONSTRAIN, *encode("json"), MESSAGE, CALL])]
    [ended] = [event for event in events if isinstance(event, MessageEnded)]
    assert (ended.header.recipient, ended.repairs) == (recipient, ())


@given(NAMES)
def test_the_header_of_a_result_is_the_tool_and_who_it_is_for(name: str) -> None:
    author = Author(Role.TOOL, f"functions.{name}")
    message = Message(author, "1", Channel.COMMENTARY, "assistant")
    assert parts(render_message(message)) == [
        *(START, f"functions.{name} to=assistant", CHANNEL, "commentary", MESSAGE, "1", END)
    ]


def sampled(header: str, declared: tuple[str, ...] = ()) -> MessageEnded:
    parser = Parser(declared)
    ids = [*encode(header), CHANNEL, *encode("commentary"), MESSAGE, *encode("{}"), CALL]
    (ended,) = [e for e in parser.push_many(ids) if isinstance(e, MessageEnded)]
    return ended


@given(st.sampled_from(["", "functions.", "function."]), ANY_TEXT)
def test_the_name_of_a_sampled_call_can_be_sent_back(namespace: str, name: str) -> None:
    recipient = sampled(f" to={namespace}{name}").header.recipient
    assert recipient is None or is_name(recipient.removeprefix("functions."))


def test_illegal_characters_are_removed_from_a_sampled_name() -> None:
    ended = sampled(" to=functions.we\u200bather")
    assert ended.header.recipient == "functions.weather"
    assert Repair.HEADER_WORDS in ended.repairs


def test_what_is_left_of_a_name_may_be_declared() -> None:
    ended = sampled(" to=we\u200bather", ("functions.weather",))
    assert ended.header.recipient == "functions.weather"
    assert Repair.HEADER_WORDS in ended.repairs


@pytest.mark.parametrize(
    "content_type", ["a\u200bb", "json\0", "x" * 1_000], ids=["hidden", "NUL", "long"]
)
def test_a_sampled_content_type_is_a_name_too(content_type: str) -> None:
    parser = Parser()
    text = f"<|channel|>final <|constrain|>{content_type}<|message|>hi<|return|>"
    ended = [e for e in parser.push_many(encode_with_control(text)) if isinstance(e, MessageEnded)]
    assert ended[0].header.content_type is None
    assert Repair.HEADER_WORDS in ended[0].repairs


def test_the_rule_names_its_bound() -> None:
    assert str(MAX_CHARACTERS) in names.RULE
    assert all(map(is_name, string.ascii_letters + string.digits + string.punctuation))
