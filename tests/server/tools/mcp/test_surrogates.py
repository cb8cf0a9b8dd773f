"""Halves of characters in JSON, whole and in pieces."""

import json
import random

import pytest

from server.tools.mcp.surrogates import Mender, mend

HALF, PAIR = r"\ud83d", r"\ud83d\ude00"
CASES = {
    HALF: "\ufffd",
    r"\uDE00": "\ufffd",
    rf"a{HALF}b": "a\ufffdb",
    PAIR: "\U0001f600",
    r"\uD83D\uDE00": "\U0001f600",
    HALF + PAIR: "\ufffd\U0001f600",
    PAIR + HALF: "\U0001f600\ufffd",
    r"\ude00\ud83d": "\ufffd\ufffd",
    HALF + r"\u0041": "\ufffdA",
    HALF + r"\n": "\ufffd\n",
    r"\\ud83d": r"\ud83d",
    rf"\\{HALF}": "\\\ufffd",
    r"\\\\ud83d": r"\\ud83d",
    r"\"\ud83d\"": '"\ufffd"',
    r"\u00e9\ud7ff\ue000": "\u00e9\ud7ff\ue000",
    r"C:\\users\\d": r"C:\users\d",
}


@pytest.mark.parametrize("escaped", CASES)
def test_halves_of_characters_are_replaced(escaped: str) -> None:
    message = f'["{escaped}"]'.encode()

    mended = mend(message)

    assert json.loads(mended) == [CASES[escaped]]
    assert len(mended) == len(message)


@pytest.mark.parametrize("escaped", CASES)
def test_it_does_not_matter_where_a_piece_ends(escaped: str) -> None:
    message = f'["{escaped}"]'.encode()
    for first in range(len(message) + 1):
        for second in range(first, len(message) + 1):
            mender = Mender()
            pieces = [message[:first], message[first:second], message[second:]]
            assert b"".join([*map(mender.add, pieces), mender.end()]) == mend(message)


def test_any_pieces_of_any_escapes_are_the_whole() -> None:
    chance = random.Random(1)
    parts = [HALF, r"\ude00", r"\\", r"\"", r"\u0041", "ud83d", "d", "\\", "u"]
    for _ in range(2000):
        message = "".join(chance.choices(parts, k=8)).encode()
        mender, pieces = Mender(), []
        while message:
            size = chance.randint(1, 7)
            pieces.append(message[:size])
            message = message[size:]
        assert b"".join([*map(mender.add, pieces), mender.end()]) == mend(b"".join(pieces))
