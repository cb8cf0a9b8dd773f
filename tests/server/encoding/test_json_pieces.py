"""JSON in pieces is the JSON that orjson writes."""

from enum import StrEnum
from typing import Any

import orjson
import pytest

from server.encoding import json_pieces
from server.encoding.json_pieces import EncodedArray, in_pieces, joined


class Status(StrEnum):
    DONE = "done"


class Name(str):
    __slots__ = ()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece has a few bytes."""
    monkeypatch.setattr(json_pieces, "PIECE", 10)


def array(*values: Any) -> EncodedArray:
    added = EncodedArray()
    added.add(values)
    return added


@pytest.mark.parametrize(
    "value",
    [
        {"text": "é", "status": Status.DONE, "name": Name("n"), "none": None},
        {"empty": array(), "after": 1},
        {"few": array({"n": 1})},
        [array(*range(100)), {"inside": [array("\0", "[\x00]"), array(*"abcdefgh")]}, Name("n")],
    ],
)
def test_pieces_are_the_json_that_is_written_at_once(value: Any) -> None:
    assert b"".join(in_pieces(value)) == orjson.dumps(value)


def test_an_array_is_that_of_its_values_however_they_are_added() -> None:
    values = [{"n": number} for number in range(50)]
    grown = EncodedArray()
    for value in values:
        grown.add([value])
    assert orjson.loads(orjson.dumps(grown)) == values
    assert grown == [*grown]
    assert (grown.pieces, grown.size) == (
        array(*values).pieces,
        len(b"".join(map(orjson.dumps, values))),
    )


def test_arrays_are_not_copied_and_their_pieces_are_bounded() -> None:
    large = array(*range(100_000, 100_100))
    pieces = in_pieces({"first": large, "second": large})
    own = [piece for piece in pieces if any(piece is one for one in large.pieces)]
    assert len(own) == 2 * len(large.pieces)
    assert max(map(len, large.pieces)) < 20


def test_what_has_no_array_is_one_piece() -> None:
    assert in_pieces({"text": "x" * 100}) == (orjson.dumps({"text": "x" * 100}),)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        in_pieces({"a": array(1), "b": object()})


def test_joined_pieces_are_neither_short_nor_long() -> None:
    parts = list(joined([b"12345"] * 5))
    assert parts == [b"1234512345", b"1234512345", b"12345"]
    assert list(joined([])) == []
