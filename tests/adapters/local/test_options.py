import pytest

from adapters.errors import BackendFailed
from adapters.local.options import Options, parse_options


def test_nothing_given_is_the_defaults() -> None:
    assert parse_options({}) == Options()


def test_values_are_read_by_their_kind() -> None:
    given = {"device": "cuda:1", "dtype": "bfloat16", "cache_tokens": "4096"}
    assert parse_options(given) == Options(device="cuda:1", dtype="bfloat16", cache_tokens=4096)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"speed": "9"}, "no option speed; it has device"),
        ({"cache_tokens": "-1"}, "cache_tokens must be a whole number, not '-1'"),
        ({"batch_tokens": "many"}, "batch_tokens must be a whole number"),
        ({"batch_requests": "0"}, "batch_requests must be at least 1"),
        ({"dtype": "int8"}, "dtype must be one of auto, float32"),
        ({"device": "toaster"}, "no device"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(BackendFailed, match=reason):
        parse_options(given)
