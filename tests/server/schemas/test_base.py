"""What requests of both APIs have in common."""

import logging
from typing import Any

import pytest

from server.body import validate
from server.errors import InvalidRequest
from server.schemas.base import Metadata, WireModel, note_unknown, refuse
from server.schemas.chat import CreateChatCompletion
from server.schemas.completions import CreateCompletion
from server.schemas.responses import CreateResponse


class Wish(WireModel):
    known: int | None = None
    labels: Metadata | None = None


def test_unknown_fields_are_logged_once_and_without_their_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    wish = Wish.model_validate({"known": 1, "novel_field": "secret"})
    note_unknown(wish, "Wish")
    note_unknown(wish, "Wish")
    assert [record.getMessage() for record in caplog.records] == [
        "Wish requests have a field that is not known here: 'novel_field'"
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
        validate({"labels": labels}, Wish)
    assert (caught.value.param or "").startswith("labels.")


@pytest.mark.parametrize("schema", [CreateChatCompletion, CreateCompletion, CreateResponse])
@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 1.5, "1"])
def test_a_seed_is_an_integer_of_64_bits(schema: type[WireModel], seed: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate({"model": "m", "messages": [], "seed": seed}, schema)
    assert caught.value.param == "seed"
