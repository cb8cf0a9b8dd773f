"""Headers that are made to be slow to read."""

from harmony.events import Repair
from harmony.headers import Reading, Recipients, read
from harmony.messages import Channel
from harmony.tokenizer import encode, encode_with_control

TOOLS = Recipients([f"functions.f{number}" for number in range(128)])


def header(text: str) -> Reading:
    return read(encode_with_control(text), TOOLS, Channel.FINAL)


def test_a_role_may_be_repeated() -> None:
    for text in ("assistant", "assistantassistant"):
        assert header(f"{text}analysis<|channel|>").header.channel is Channel.ANALYSIS


def test_a_role_that_is_repeated_very_often_is_read_at_once() -> None:
    # With quadratic work, this would take minutes.
    reading = read(encode("assistant") * 1_000_000, TOOLS, Channel.FINAL)
    assert reading.header.channel is Channel.FINAL
    assert Repair.UNEXPECTED_ROLE in reading.repairs
