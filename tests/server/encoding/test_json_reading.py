"""What is read again is what was written, and long logprobs are not parsed."""

from typing import Any

import orjson
import pytest

from server.encoding.json_pieces import PIECE, EncodedArray, in_pieces
from server.encoding.json_reading import load

TEXTS = ["yes", '] "}{[', "\\", '{"logprobs":[{}]', '\\\\"logprobs\\":[', "é😀", ""]
ENTRY = {
    "token": "yes",
    "bytes": [121, 101, 115],
    "top_logprobs": [{"token": text, "bytes": [*text.encode()], "logprob": -1.5} for text in TEXTS],
}
ENTRIES = [ENTRY | {"logprob": float(number)} for number in range(1000)]
RECORDED = [{"logprob": -0.5, "top": [[number, -0.5], [5, -1.25]]} for number in range(2000)]
LONG = "x" * (1 << 18)


def of_chat(entries: Any) -> dict[str, Any]:
    return {"choices": [{"logprobs": {"content": entries, "refusal": None}, "index": 0}]}


@pytest.mark.parametrize(
    "value",
    [
        of_chat(ENTRIES),
        {"first": {"logprobs": ENTRIES}, "logprobs": ENTRIES[:-1], "last": '{"logprobs":[{}]'},
        {'"logprobs': ENTRIES, "text": '"logprobs":[{'},
        {"samplings": [{"token_ms": [1, 2], "logprobs": RECORDED}], "text": LONG},
        {"logprobs": [], "text": LONG},
        {"logprobs": [{}, 1], "text": LONG},
        {"logprobs": [[[[[[1]]]]]], "text": LONG},
        {"logprobs": None, "others": [{"logprobs": {"content": None}}], "text": LONG},
    ],
)
def test_what_is_read_is_written_as_it_was(value: dict[str, Any]) -> None:
    text = orjson.dumps(value)
    assert orjson.dumps(load(text)) == text
    assert b"".join(in_pieces(load(text))) == text


def test_long_logprobs_stay_encoded_in_pieces() -> None:
    found = load(orjson.dumps(of_chat(ENTRIES)))
    array = found["choices"][0]["logprobs"]["content"]
    assert isinstance(array, EncodedArray)
    assert max(map(len, array.pieces)) <= PIECE
    assert array.size == sum(map(len, array.pieces))
    assert found["choices"][0]["index"] == 0


def test_long_logprobs_of_a_record_stay_encoded() -> None:
    found = load(orjson.dumps({"samplings": [{"logprobs": RECORDED}], "text": LONG}))
    assert isinstance(found["samplings"][0]["logprobs"], EncodedArray)


def test_a_short_text_is_parsed() -> None:
    value = of_chat(ENTRIES[:10])
    assert load(orjson.dumps(value)) == value


@pytest.mark.parametrize("logprobs", [ENTRIES[:3], [{"other": number} for number in range(9000)]])
def test_short_logprobs_and_other_arrays_of_a_long_text_are_parsed(logprobs: Any) -> None:
    value = {"text": LONG, "logprobs": logprobs}
    assert load(orjson.dumps(value)) == value
