"""Types and checks that all request schemas share."""

import logging
from typing import Any

import pytest

from server.errors import InvalidRequest
from server.http.bodies.json_text import validate
from server.schemas.base import Metadata, WireModel, note_unknown, refuse
from server.schemas.chat import CreateChatCompletion
from server.schemas.legacy_completions import CreateCompletion
from server.schemas.limits import MAX_BIASES, MAX_FIELDS, MAX_LABEL, MAX_LISTED
from server.schemas.responses import CreateResponse


class ExampleRequest(WireModel):
    known: int | None = None
    labels: Metadata | None = None


def test_unknown_fields_are_logged_once_without_their_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    request = ExampleRequest.model_validate({"known": 1, "novel_field": "secret"})
    note_unknown(request, "Example")
    note_unknown(request, "Example")
    assert [record.getMessage() for record in caplog.records] == [
        "Example requests have an unknown field: 'novel_field'"
    ]


def test_unknown_fields_of_nested_objects_are_logged_with_their_paths(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    fields = {"reasoning": {"novel_option": "secret"}, "text": {"novel_form": 1}, "novel_top": 2}
    note_unknown(CreateResponse.model_validate(fields), "Nested")
    assert [record.getMessage() for record in caplog.records] == [
        f"Nested requests have an unknown field: '{name}'"
        for name in ("novel_top", "text.novel_form", "reasoning.novel_option")
    ]


@pytest.mark.parametrize("off", [None, False, [], {}, ""])
def test_empty_values_are_not_refused(off: Any) -> None:
    refuse("audio", off)


@pytest.mark.parametrize("on", [True, ["x"], {"voice": "x"}, "x"])
def test_other_values_are_refused(on: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        refuse("audio", on)
    assert (caught.value.param, caught.value.code) == ("audio", "unsupported_parameter")


@pytest.mark.parametrize(
    "labels", [{"a": "\0"}, {"a\0": "b"}, {"a" * 65: "b"}, {"a": "b" * 513}, {"a": 1}]
)
def test_bad_metadata_is_refused(labels: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate({"labels": labels}, ExampleRequest)
    assert (caught.value.param or "").startswith("labels.")


@pytest.mark.parametrize("schema", [CreateChatCompletion, CreateCompletion, CreateResponse])
@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 1.5, "1"])
def test_a_seed_that_is_no_64_bit_integer_is_refused(schema: type[WireModel], seed: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate({"model": "m", "messages": [], "seed": seed}, schema)
    assert caught.value.param == "seed"


def test_only_some_of_many_unknown_fields_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    names = [f"{'x' * 100}{number}" for number in range(8)] + [f"y{n}" for n in range(100)]
    note_unknown(ExampleRequest.model_validate(dict.fromkeys(names)), "Example")
    written = [record.getMessage() for record in caplog.records]
    assert len(written) == 2  # the eight names are the same when they are cut
    assert "x" * 65 not in written[0]
    assert written[1] == "a request has 100 more unknown fields"


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
def test_the_size_of_a_field_is_checked_before_its_members(
    fields: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(InvalidRequest, match="expected at most") as caught:
        validate(fields, CreateResponse)
    assert caught.value.param == param


class Described(WireModel):
    first: int
    """The first.

    It has two paragraphs.
    """
    second: int = 0


class MoreDescribed(Described):
    second: int = 1
    """The second."""
    third: "list[Described]"
    """The others."""


def test_fields_are_described_by_the_strings_below_them() -> None:
    schema = MoreDescribed.model_json_schema()
    described = {name: field.get("description") for name, field in schema["properties"].items()}
    first = "The first.\n\nIt has two paragraphs."
    assert described == {"first": first, "second": "The second.", "third": "The others."}
    fields = schema["$defs"]["Described"]["properties"]
    assert [field.get("description") for field in fields.values()] == [first, None]
