import pytest

from adapters.errors import BackendFailed
from adapters.local.options import Options, parse_options


def test_options_have_defaults() -> None:
    assert parse_options({}) == Options()


def test_values_are_converted_to_the_types_of_the_fields() -> None:
    values = {"device": "cuda:1", "dtype": "bfloat16", "cache_tokens": "4096"}
    assert parse_options(values) == Options(device="cuda:1", dtype="bfloat16", cache_tokens=4096)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"speed": "9"}, "no option speed; it has device"),
        ({"cache_tokens": "-1"}, "cache_tokens must be greater than or equal to 0, not '-1'"),
        ({"cache_tokens": "32"}, "cache_tokens must be 0 or at least 33, not '32'"),
        ({"batch_tokens": "many"}, "batch_tokens must be a valid integer, not 'many'"),
        ({"batch_requests": "0"}, "batch_requests must be greater than or equal to 1, not '0'"),
        ({"dtype": "int8"}, "dtype must be 'auto', 'float32'"),
        ({"device": "toaster"}, "device must be auto, cpu, mps, cuda or cuda:N, not 'toaster'"),
    ],
)
def test_an_invalid_option_is_named(values: dict[str, str], reason: str) -> None:
    with pytest.raises(BackendFailed, match=reason):
        parse_options(values)
