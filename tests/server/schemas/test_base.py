"""What requests of both APIs have in common."""

import logging
from typing import Any

import pytest

from server.errors import InvalidRequest
from server.schemas.base import WireModel, note_unknown, refuse


class Wish(WireModel):
    known: int | None = None


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
