"""What requests of both APIs have in common."""

import logging
from typing import Any

import pytest

from server.errors import InvalidRequest
from server.http.json_body import validate
from server.schemas.base import Metadata, WireModel, note_unknown, refuse
from server.schemas.chat import CreateChatCompletion
from server.schemas.legacy_completions import CreateCompletion
from server.schemas.limits import MAX_BIASES, MAX_FIELDS, MAX_LABEL, MAX_LISTED
from server.schemas.responses import CreateResponse


class ConstraintRequest(WireModel):
    known: int | None = None
    labels: Metadata | None = None


def test_unknown_fields_are_logged_once_and_without_their_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    wish = ConstraintRequest.model_validate({"known": 1, "novel_field": "secret"})
    note_unknown(wish, "ConstraintRequest")
    note_unknown(wish, "ConstraintRequest")
    assert [record.getMessage() for record in caplog.records] == [
        "ConstraintRequest requests have a field that is not known here: 'novel_field'"
    ]


@pytest.mark.parametrize("off", [None, False, [], {}, ""])
def test_what_is_off_is_not_refused(off: Any) -> None:
    refuse("audio", off)


@pytest.mark.parametrize("on", [True, ["x"], {"voice": "x"}, "x"])
def test_what_is_on_is_refused_by_name(on: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        refuse("audio", on)
    assert (caught.value.param, caught.value.code) == ("audio", "unsupported_parameter")


@pytest.mark.parametrize(
    "labels", [{"a": "\0"}, {"a\0": "b"}, {"a" * 65: "b"}, {"a": "b" * 513}, {"a": 1}]
)
def test_a_label_is_short_text_that_every_store_can_hold(labels: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate({"labels": labels}, ConstraintRequest)
    assert (caught.value.param or "").startswith("labels.")


@pytest.mark.parametrize("schema", [CreateChatCompletion, CreateCompletion, CreateResponse])
@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 1.5, "1"])
def test_a_seed_is_an_integer_of_64_bits(schema: type[WireModel], seed: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate({"model": "m", "messages": [], "seed": seed}, schema)
    assert caught.value.param == "seed"


def test_of_many_unknown_fields_a_few_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    names = [f"{'x' * 100}{number}" for number in range(8)] + [f"y{n}" for n in range(100)]
    note_unknown(ConstraintRequest.model_validate(dict.fromkeys(names)), "ConstraintRequest")
    written = [record.getMessage() for record in caplog.records]
    assert len(written) == 2  # cut, the eight names are one
    assert "x" * 65 not in written[0]
    assert written[1] == "a request has 100 more fields that are not known"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (dict.fromkeys(map(str, range(MAX_FIELDS + 1))), None),
        ({"reasoning": dict.fromkeys(map(str, range(MAX_FIELDS + 1)))}, "reasoning"),
        ({"text": {"format": dict.fromkeys(map(str, range(MAX_FIELDS + 1)))}}, "text.format"),
        ({"stream_options": dict.fromkeys(map(str, range(MAX_FIELDS + 1)))}, "stream_options"),
        ({"include": [1] * (MAX_LISTED + 1)}, "include"),
        ({"metadata": dict.fromkeys(map(str, range(17)), 1)}, "metadata"),
        ({"logit_bias": dict.fromkeys(map(str, range(MAX_BIASES + 1)), "x")}, "logit_bias"),
        ({"user": "x" * (MAX_LABEL + 1)}, "user"),
        ({"include": ["x" * (MAX_LABEL + 1)]}, "include.0"),
        ({"metadata": {"a": "é" * (MAX_LABEL + 1)}}, "metadata.a"),
    ],
)
def test_a_field_is_bounded_before_its_members_are_looked_at(
    fields: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(InvalidRequest, match="Input should have at most") as caught:
        validate(fields, CreateResponse)
    assert caught.value.param == param
