import json
import threading
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from starlette.requests import Request
from starlette.types import Message

from server.errors import InvalidRequest
from server.http.json_body import LARGE, load, parse, read_json, validate
from server.schemas.limits import MAX_DEPTH


class Inner(BaseModel):
    size: int


class Outer(BaseModel):
    name: str
    inner: list[Inner] = []


def request(body: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "headers": []}, receive)


async def test_a_body_that_fits_becomes_its_schema() -> None:
    body = json.dumps({"name": "n", "inner": [{"size": 1}]}).encode()
    assert await parse(request(body), Outer) == Outer(name="n", inner=[Inner(size=1)])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{'a': 1}", b'{"a": 1} x', b'{"a": NaN}', b"\xff", b"[" * 5000, b'"\\ud800'],
)
async def test_a_body_that_is_no_json_is_a_400(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await read_json(body)
    assert refusal.value.code == "invalid_json"
    assert refusal.value.message.startswith("We could not parse the JSON body of your request: ")


@pytest.mark.parametrize(
    ("value", "param", "message"),
    [
        ({}, "name", "Invalid value for 'name': Field required."),
        ({"name": 1}, "name", "Invalid value for 'name': Input should be a valid string."),
        ({"name": "n", "inner": [{"size": 1}, {"size": "big"}]}, "inner.1.size", None),
        (
            {"name": "n", "inner": {}},
            "inner",
            "Invalid value for 'inner': Input should be an array.",
        ),
        ([], None, "Invalid value: Input should be an object."),
    ],
)
def test_a_value_that_does_not_fit_is_a_400_that_names_the_field(
    value: Any, param: str | None, message: str | None
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate(value, Outer)
    assert refusal.value.param == param
    assert message in (None, refusal.value.message)


def test_what_was_sent_is_not_repeated() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate({"name": {"secret": "hunter2"}}, Outer)
    assert "hunter2" not in refusal.value.message


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_body_may_be_nested_so_deep_and_no_deeper(opening: str, closing: str) -> None:
    def nested(depth: int) -> bytes:
        return (opening * depth + "1" + closing * depth).encode()

    load(nested(MAX_DEPTH))
    with pytest.raises(InvalidRequest, match=f"deeper than {MAX_DEPTH} levels") as refusal:
        load(nested(MAX_DEPTH + 1))
    assert refusal.value.code == "invalid_json"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"cut \ud83d"', "cut \N{REPLACEMENT CHARACTER}"),
        (rb'"\uDE00\uD83D!"', "\N{REPLACEMENT CHARACTER}" * 2 + "!"),
        (rb'"\ud83d\ud83d\ude00"', "\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}"),
        (rb'"\\ud83d \ud83d"', "\\ud83d \N{REPLACEMENT CHARACTER}"),
        (rb'{"\udc00": ["\n\u00e9"]}', {"\N{REPLACEMENT CHARACTER}": ["\né"]}),
    ],
)
def test_half_a_surrogate_pair_is_a_replacement_character(text: bytes, value: Any) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    ("size", "beside"), [(LARGE, False), (LARGE + 1, True)], ids=["small", "large"]
)
async def test_only_a_large_body_is_read_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, beside: bool
) -> None:
    seen: set[int] = set()

    class Noted(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def note(cls, name: str) -> str:
            seen.add(threading.get_ident())
            return name

    text = b'{"name":"' + b"x" * (size - 11) + b'"}'
    await parse(request(text), Noted)
    assert len(text) == size
    assert (seen != {threading.get_ident()}) is beside
    assert await read_json(text) == json.loads(text)


def test_a_lone_surrogate_in_a_long_text_is_replaced() -> None:
    text = rb"\n\\" * 100_000
    expected = "\n\\" * 100_000
    assert load(b'["' + text + rb'\ud800"]') == [expected + "\N{REPLACEMENT CHARACTER}"]


def test_a_body_over_a_limit_is_refused_before_it_is_built() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        load(b"[" + b"{}," * 200_000 + b"no JSON")
    assert refusal.value.code == "body_too_complex"
