from typing import Any

import pytest
from pydantic import BaseModel

from server.errors import InvalidRequest
from server.http.bodies.json_text import load, validate
from server.schemas.chat import CreateChatCompletion
from server.schemas.limits import MAX_DEPTH


class Inner(BaseModel):
    size: int


class Outer(BaseModel):
    name: str
    inner: list[Inner] = []


@pytest.mark.parametrize(
    ("value", "param", "message"),
    [
        ({}, "name", "Missing required parameter: 'name'."),
        ({"name": 1}, "name", "Invalid value for 'name': expected a string."),
        ({"name": "n", "inner": [{"size": 1}, {"size": "big"}]}, "inner.1.size", None),
        (
            {"name": "n", "inner": {}},
            "inner",
            "Invalid value for 'inner': expected an array.",
        ),
        ([], None, "Invalid value: expected an object."),
    ],
)
def test_a_value_that_does_not_fit_is_a_400_that_names_the_field(
    value: Any, param: str | None, message: str | None
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate(value, Outer)
    assert refusal.value.param == param
    assert message in (None, refusal.value.message)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"temperature": "hot"}, "invalid_type"),
        ({"model": 3}, "invalid_type"),
        ({"max_tokens": 1.5}, "invalid_type"),
        ({"max_tokens": "1"}, "invalid_type"),
        ({"stop": None, "logit_bias": []}, "invalid_type"),
        ({"messages": None, "model": None}, "invalid_type"),
        ({"max_tokens": 0}, "invalid_value"),
        ({"verbosity": "loud"}, "invalid_value"),
        ({"metadata": dict.fromkeys(map(str, range(17)), "x")}, "invalid_value"),
    ],
)
def test_the_code_says_what_is_wrong(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate({"model": "m", "messages": [], **fields}, CreateChatCompletion)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"top_logprobs": 21}, "'top_logprobs': expected at most 20."),
        ({"n": 0}, "'n': expected at least 1."),
        ({"verbosity": "loud"}, "'verbosity': expected 'low', 'medium' or 'high'."),
        ({"metadata": dict.fromkeys("abcdefghijklmnopq", "")}, "'metadata': expected at most 16 "),
    ],
)
def test_all_problems_are_worded_alike(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate({"model": "m", "messages": [], **fields}, CreateChatCompletion)
    assert refusal.value.message.startswith(f"Invalid value for {problem}")


def test_a_missing_field_has_a_code_of_its_own() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate({"messages": []}, CreateChatCompletion)
    assert (refusal.value.param, refusal.value.code) == ("model", "missing_required_parameter")


def test_what_was_sent_is_not_repeated() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate({"name": {"secret": "hunter2"}}, Outer)
    assert "hunter2" not in refusal.value.message


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_body_may_be_nested_so_deep_and_no_deeper(opening: str, closing: str) -> None:
    def nested(depth: int) -> bytes:
        return (opening * depth + "1" + closing * depth).encode()

    load(nested(MAX_DEPTH))
    with pytest.raises(InvalidRequest, match=f"more than {MAX_DEPTH} levels") as refusal:
        load(nested(MAX_DEPTH + 1))
    assert refusal.value.code == "body_too_complex"


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


def test_a_lone_surrogate_in_a_long_text_is_replaced() -> None:
    text = rb"\n\\" * 100_000
    expected = "\n\\" * 100_000
    assert load(b'["' + text + rb'\ud800"]') == [expected + "\N{REPLACEMENT CHARACTER}"]


def test_a_body_over_a_limit_is_refused_before_it_is_built() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        load(b"[" + b"{}," * 200_000 + b"no JSON")
    assert refusal.value.code == "body_too_complex"
