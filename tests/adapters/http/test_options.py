import pytest

from adapters.errors import BackendFailed
from adapters.http.options import Options, parse_options


def test_urls_are_normalized_without_duplicates() -> None:
    options = parse_options("b", {"url": "http://a/, http://b ,http://a,"})
    assert options.urls == ("http://a", "http://b")


def test_values_are_converted_to_the_types_of_the_fields() -> None:
    values = {"url": "http://a", "api_key": "k", "timeout_seconds": "2.5"}
    assert parse_options("b", values) == Options("http://a", api_key="k", timeout_seconds=2.5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "the b backend needs --backend-url"),
        ({"url": ","}, "the b backend needs --backend-url"),
        ({"url": "a:8000"}, "a:8000 does not begin with http:// or https://"),
        ({"url": "http://a", "colour": "red"}, "the b backend has no option colour; it has"),
        (
            {"url": "http://a", "health_seconds": "soon"},
            "must be a valid number, not 'soon'",
        ),
        (
            {"url": "http://a", "health_seconds": "0"},
            "must be greater than 0, not '0'",
        ),
        (
            {"url": "http://a", "health_seconds": "nan"},
            "must be a finite number, not 'nan'",
        ),
        (
            {"url": "http://a", "health_seconds": "inf"},
            "must be a finite number, not 'inf'",
        ),
    ],
)
def test_an_invalid_option_is_named(values: dict[str, str], message: str) -> None:
    with pytest.raises(BackendFailed, match=message):
        parse_options("b", values)
