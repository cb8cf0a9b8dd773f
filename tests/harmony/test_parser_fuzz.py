"""30,000 random sequences: the parser reads each, loses no text, and needs no luck with chunks."""

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony import vocab
from harmony.events import Event, MessageEnded, Repair
from harmony.messages import Channel
from harmony.parser import ASSISTANT, Parser
from harmony.tokenizer import encode, encode_with_control
from harmony.vocab import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    ENDOFTEXT,
    MESSAGE,
    RETURN,
    START,
    STOP_TOKENS,
)
from tests.harmony.parsing import merged, messages

SEQUENCES = 30_000
SEED = 20_251_120
DECLARED = ("functions.f", "functions.get_weather", "browser.search", "python")

CONTROL = (START, CHANNEL, MESSAGE, CONSTRAIN, END, RETURN, CALL, ENDOFTEXT)
CLOSES = frozenset(CONTROL)
HEADER_WORDS = tuple(
    tuple(encode(word))
    for word in (
        *("assistant", "user", "functions.f", "python", "bash"),
        *("analysis", "commentary", "final", "commentary?"),
        *(" to=", " to=functions.f", " to=assistant", " to=functions.fjson", " to=browser.search"),
        *(" json", "json", " code"),
    )
)
HEADERS = tuple(
    (*role, CHANNEL, *encode(channel), *recipient, MESSAGE)
    for role in ((), ASSISTANT)
    for channel in Channel
    for recipient in ((), encode(" to=functions.f json"))
)
RANKS = vocab.ranks()
BYTES = tuple(RANKS[bytes([byte])] for byte in range(0x80, 0x100))
ODD = (-1, 199998, 200018, 201087, vocab.VOCAB_SIZE, 1 << 70)


def sequences() -> Iterator[tuple[random.Random, list[int]]]:
    """Each sequence, with the generator to draw its chunks from."""
    rng = random.Random(SEED)
    for _ in range(SEQUENCES):
        yield rng, [token for _ in range(rng.randrange(1, 9)) for token in piece(rng)]


def piece(rng: random.Random) -> Sequence[int]:
    draw = rng.random()
    if draw < 0.3:
        return (rng.choice(CONTROL),)
    if draw < 0.5:
        return rng.choice(HEADER_WORDS)
    if draw < 0.6:
        return rng.choice(HEADERS)
    if draw < 0.65:
        return (*rng.choice(HEADERS), rng.randrange(vocab.FIRST_SPECIAL), rng.choice((END, CALL)))
    if draw < 0.85:
        return (rng.randrange(vocab.FIRST_SPECIAL),)
    if draw < 0.97:
        return (rng.choice(BYTES),)
    return (rng.choice(ODD),)


def bodies(tokens: Sequence[int]) -> list[str]:
    """What stands between each `<|message|>` and the next control token of harmony's."""
    pieces = vocab.token_bytes()
    found: list[bytes] = []
    inside = False
    for token in tokens:
        if token in CLOSES:
            inside = token == MESSAGE
            if inside:
                found.append(b"")
        elif inside and 0 <= token < vocab.FIRST_SPECIAL:
            found[-1] += pieces[token]
    return [body.decode("utf-8", "replace") for body in found]


def singly(tokens: Sequence[int]) -> list[Event]:
    parser = Parser(DECLARED)
    events = [event for token in tokens for event in parser.push(token)]
    return [*events, *parser.finish()]


def chunked(tokens: Sequence[int], rng: random.Random) -> list[Event]:
    parser = Parser(DECLARED)
    cut = rng.randrange(len(tokens) + 1)
    events = [*parser.push_many(tokens[:cut]), *parser.push_many(tokens[cut:])]
    return [*events, *parser.finish()]


def check_words(message: MessageEnded) -> None:
    """No control token and no word of the header's own got into a field."""
    header = message.header
    assert isinstance(header.channel, Channel)
    for field in (header.recipient, header.content_type):
        assert field is None or field not in ("", "assistant", "user", *Channel)
        assert field is None or field.encode()  # a control token's stand-in has no encoding
    assert message.content.encode() or not message.content


def check_replay(message: MessageEnded) -> None:
    """The tokens of a message that needed no repair are that message."""
    if message.end is not None and not message.repairs:
        [again] = messages(message.tokens, DECLARED, prefix=())
        assert (again.header, again.content, again.tokens, again.end, again.repairs) == (
            *(message.header, message.content, message.tokens, message.end),
            (),
        )


def test_random_tokens_are_read_without_loss_however_they_are_cut() -> None:
    replayable = 0
    for rng, tokens in sequences():
        events = singly(tokens)
        ended = [event for event in events if isinstance(event, MessageEnded)]
        contents = [m.content for m in ended if Repair.HEADERLESS_TEXT not in m.repairs]
        assert contents == bodies(tokens), tokens
        assert merged(chunked(tokens, rng)) == merged(events), tokens
        for message in ended:
            check_words(message)
            check_replay(message)
            replayable += message.end is not None and not message.repairs
    assert replayable > SEQUENCES // 50


# No letter, digit or other character that a name in a header may have, and no space.
SYMBOLS = tuple(token for mark in "?!€§…" for token in encode(mark) if len(encode(mark)) == 1)
ENDS = (None, *sorted(STOP_TOKENS))


def claimed(tokens: Sequence[int]) -> list[int]:
    """The symbols that have to come out: all but those that a `<|message|>` followed in a header.

    That is what stands in a body, and what stands anywhere else once the sampling has ended there.
    """
    found: list[int] = []
    withheld: list[int] = []
    inside = False
    for token in tokens:
        if token in SYMBOLS:
            (found if inside else withheld).append(token)
        elif token == MESSAGE:
            withheld, inside = [], True
        elif token in STOP_TOKENS:
            found += withheld
            withheld, inside = [], False
        elif token in CLOSES:
            inside = False
    return found + withheld


@given(
    st.lists(
        st.one_of(
            st.sampled_from([(token,) for token in CONTROL]),
            st.sampled_from(HEADER_WORDS),
            st.sampled_from(HEADERS),
            st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4).map(tuple),
        ),
        max_size=12,
    ),
    st.sampled_from(ENDS),
)
def test_no_character_is_lost_however_the_sampling_ends(
    pieces: list[tuple[int, ...]], end: int | None
) -> None:
    tokens = [token for one in pieces for token in one]
    tokens += [] if end is None else [end]
    spelled = "".join(message.content for message in messages(tokens, DECLARED))
    marks = [mark for mark in spelled if mark in "?!€§…"]
    pieces_of = vocab.token_bytes()
    assert marks == [pieces_of[token].decode() for token in claimed(tokens)]


def is_header_word(text: str) -> bool:
    """Whether a legal header may begin so: the one text that no sampling's end gives up."""
    words = (" to=", " json", " code", " text", "assistant")
    return text.startswith((" to=", "to=", "assistant")) or any(w.startswith(text) for w in words)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("before", ["", "<|start|>assistant", "<|end|>", "<|start|>"])
@given(text=st.text(min_size=1))
def test_any_text_comes_out_however_the_sampling_ends(
    text: str, before: str, end: int | None
) -> None:
    tokens = [*encode_with_control(before), *encode(text), *([] if end is None else [end])]
    contents = [message.content for message in messages(tokens)]
    assert is_header_word(text) or contents == [text.encode("utf-8", "replace").decode()]
