"""Headers that are made to be slow to read."""

import pytest

from harmony import headers
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
    monkeypatch.setattr(
        Recipients, "resolve", lambda self, name: resolved.append(name) or resolve(self, name)
    )
    reading = header(f"assistant{text}<|channel|>commentary")
    assert reading.header.recipient == recipient
    assert Repair.REPEATED_RECIPIENT in reading.repairs
    assert resolved.count("x") <= 1
    assert "f8" not in resolved


def test_a_name_is_not_compared_with_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(headers, "_bare", lambda name: compared.append(name) or name)
    assert TOOLS.resolve("x").recipient == "x"
    assert len(compared) < 4
