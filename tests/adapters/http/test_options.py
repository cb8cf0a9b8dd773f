import pytest

from adapters.errors import BackendFailed
from adapters.http.options import Options, parse_options


def test_urls_are_cleaned_and_counted_once() -> None:
    options = parse_options("b", {"url": "http://a/, http://b ,http://a,"})
    assert options.urls == ("http://a", "http://b")


def test_values_are_read_by_their_kind() -> None:
    given = {"url": "http://a", "api_key": "k", "timeout_seconds": "2.5"}
    assert parse_options("b", given) == Options("http://a", api_key="k", timeout_seconds=2.5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "the b backend needs --backend-url"),
        ({"url": ","}, "the b backend needs --backend-url"),
        ({"url": "a:8000"}, "a:8000 does not begin with http:// or https://"),
        ({"url": "http://a", "colour": "red"}, "the b backend has no option colour; it has"),
        ({"url": "http://a", "health_seconds": "soon"}, "health_seconds must be a number"),
        ({"url": "http://a", "health_seconds": "0"}, "above 0, not '0'"),
        ({"url": "http://a", "health_seconds": "nan"}, "above 0, not 'nan'"),
        ({"url": "http://a", "health_seconds": "inf"}, "above 0, not 'inf'"),
    ],
)
def test_a_bad_option_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(BackendFailed, match=told):
        parse_options("b", given)
