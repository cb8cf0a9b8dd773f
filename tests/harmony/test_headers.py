"""Headers that are made to be slow to read."""

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony import headers, names
from harmony.events import Header, Repair
from harmony.headers import Reading, Recipients, read
from harmony.messages import Channel
from harmony.parser import Parser
from harmony.tokenizer import encode, encode_with_control
from harmony.vocab import CHANNEL

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


def test_parsers_for_the_same_tools_share_their_recipients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choices of a request have a parser each, and may have thousands of tools."""
    made = Mock(wraps=Recipients)
    monkeypatch.setattr(headers, "Recipients", made)
    for _ in range(3):
        Parser(["functions.shared"])
    assert made.call_count == 1


def test_between_control_tokens_nothing_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampling of control tokens alone took 0.1 s of the event loop."""
    decode = Mock(return_value="")
    monkeypatch.setattr(headers, "decode", decode)
    read([CHANNEL] * 1_000, TOOLS, Channel.FINAL)
    assert decode.call_count == 1


@pytest.mark.parametrize(
    ("text", "recipient"),
    [
        (" to=x" * 9, "x"),
        (" to=all" * 9 + " to=f7 to=f8", "functions.f7"),
        (" to=all" * 9, None),
    ],
)
def test_names_after_the_first_tool_are_not_resolved(
    text: str, recipient: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved: list[str] = []
    resolve = Recipients.resolve

    def noted(recipients: Recipients, name: str) -> Any:
        resolved.append(name)
        return resolve(recipients, name)

    monkeypatch.setattr(Recipients, "resolve", noted)
    reading = header(f"assistant{text}<|channel|>commentary")
    assert reading.header.recipient == recipient
    assert Repair.REPEATED_RECIPIENT in reading.repairs
    assert resolved.count("x") <= 1
    assert "f8" not in resolved


class Counted:
    """An expression that notes what it finds."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.found: list[str] = []

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        for match in self._pattern.finditer(text):
            self.found.append(match[0])
            yield match


@pytest.mark.parametrize(
    "part", [" ", "a ", " to=x", "<|channel|>", "<|channel|>a", "x<|constrain|>"]
)
def test_little_of_a_long_header_is_read(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items = Counted(headers._ITEM)
    monkeypatch.setattr(headers, "_ITEM", items)
    reading = read([*encode_with_control(part) * 100_000], TOOLS, Channel.FINAL)
    assert reading.repairs
    assert len(items.found) < 10_000
    assert all(items.found)


def test_white_space_has_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    items = Counted(headers._ITEM)
    monkeypatch.setattr(headers, "_ITEM", items)
    header("assistant" + " " * 4_000 + "<|channel|>commentary" + "\n" * 1_000 + "json")
    assert items.found == ["assistant", "commentary", "json"]


@pytest.mark.parametrize("filler", [" ", "word ", "x", "<|channel|>final "])
def test_the_ends_of_a_long_header_are_read(filler: str) -> None:
    beginning, end = "assistant to=functions.f7 ", " <|channel|>commentary json"
    for gap in range(100):
        reading = header(beginning + filler * 4_000 + "x" * gap + end)
        assert reading.header == Header(Channel.COMMENTARY, "functions.f7", "json")
        assert reading.repairs


@given(st.integers(3_000, 5_000), st.integers(3_000, 5_000))
def test_no_name_is_cut_apart_in_a_long_header(before: int, after: int) -> None:
    text = f"assistant{' ' * before}to=functions.f7{' ' * after}<|channel|>commentary"
    assert header(text).header.recipient in ("functions.f7", None)


def test_an_endless_name_is_cut() -> None:
    for name in ("x" * 1_000_000, "\u200b" * 1_000_000):
        recipient = header(f"assistant to={name}<|channel|>commentary").header.recipient
        assert recipient is None or len(recipient) <= names.MAX_CHARACTERS


def test_a_name_is_not_compared_with_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def bare(name: str) -> str:
        compared.append(name)
        return name

    monkeypatch.setattr(headers, "_bare", bare)
    assert TOOLS.resolve("x").recipient == "x"
    assert len(compared) < 4
