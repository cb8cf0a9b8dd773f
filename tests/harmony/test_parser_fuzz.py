"""200,000 random sequences: the parser reads each, loses no text, and needs no luck with chunks."""

import random
from collections.abc import Iterator, Sequence

from harmony import vocab
from harmony.events import Event, MessageEnded, Repair
from harmony.messages import Channel
from harmony.parser import ASSISTANT, Parser
from harmony.tokenizer import encode
from harmony.vocab import CALL, CHANNEL, CONSTRAIN, END, ENDOFTEXT, MESSAGE, RETURN, START
from tests.harmony.parsing import merged, messages

SEQUENCES = 200_000
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
BYTES = tuple(vocab.ranks()[bytes([byte])] for byte in range(0x80, 0x100))
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
