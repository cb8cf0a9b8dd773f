import pytest

from adapters.errors import BackendFailed
from adapters.http.options import Options, parse_options, without_user


def test_urls_are_normalized_without_duplicates() -> None:
    options = parse_options("b", {"url": "http://a/, http://b ,http://a,"})
    assert options.urls == ("http://a", "http://b")


def test_values_are_converted_to_the_types_of_the_fields() -> None:
    values = {"url": "http://a", "api_key": "k", "timeout_seconds": "2.5"}
    assert parse_options("b", values) == Options("http://a", api_key="k", timeout_seconds=2.5)


@pytest.mark.parametrize("url", ["http://a:1", "https://a:65535"])
def test_any_port_may_be_named(url: str) -> None:
    assert parse_options("b", {"url": url}).urls == (url,)


def test_urls_that_differ_in_the_user_are_one_engine() -> None:
    assert Options("http://u:p@a,http://v:q@a,http://a/b@c").urls == (
        "http://v:q@a",
        "http://a/b@c",
    )


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://u:p@a:8000/x", "http://a:8000/x"),
        ("http://u:p@q@a", "http://a"),
        ("http://a/x@y", "http://a/x@y"),
        ("http://a//x@y/v1", "http://a//x@y/v1"),
        ("http://u:p@a//x@y/v1", "http://a//x@y/v1"),
        ("http://a", "http://a"),
    ],
)
def test_a_name_has_no_user(url: str, name: str) -> None:
    assert without_user(url) == name


@pytest.mark.parametrize(
    "url", ["user:secret@a:8000", "ftp://user:secret@a", "http://user:sec/ret@a", "http://:secret@"]
)
def test_an_invalid_url_is_shown_without_its_password(url: str) -> None:
    with pytest.raises(BackendFailed) as raised:
        parse_options("b", {"url": url})
    assert "sec" not in str(raised.value)


@pytest.mark.parametrize("key", ["secret\n", " secret ", "secret\r\n"])
def test_a_key_is_stripped(key: str) -> None:
    assert parse_options("b", {"url": "http://a", "api_key": key}).api_key == "secret"


@pytest.mark.parametrize(
    "key", ["sec\nret", "sec\x00ret", "secr\N{LATIN SMALL LETTER E WITH ACUTE}t"]
)
def test_a_key_that_no_header_can_have_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(BackendFailed, match="api_key has control characters") as raised:
        parse_options("b", {"url": "http://a", "api_key": key})
    assert "sec" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://user:secret@a", "http://b,http://user@a"])
def test_a_key_is_not_combined_with_a_user(url: str) -> None:
    with pytest.raises(BackendFailed, match="api_key cannot be combined with a user") as raised:
        parse_options("b", {"url": url, "api_key": "secret"})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"url": "http://"}, "http: is no URL with a host"),
        ({"url": "http://:8000"}, "http://:8000 is no URL with a host"),
        ({"url": "https://a:b"}, "https://a:b is no URL with a host"),
        ({"url": "https://xn--"}, "https://xn-- is no URL with a host"),
        ({"url": "https://a:0"}, "https://a:0 has a port that is not from 1 to 65535"),
        ({"url": "https://a:99999"}, "https://a:99999 has a port that is not from 1 to 65535"),
        ({}, "the b backend needs --backend-url"),
        ({"url": ","}, "the b backend needs --backend-url"),
        ({"url": "a:8000"}, "a:8000 does not begin with http:// or https://"),
        ({"url": "http://u:p@a/v1?key=1"}, "^a/v1.key=1 has a query, a fragment or white space"),
        ({"url": "http://a#b"}, "a#b has a query"),
        ({"url": "http://a/v 1"}, "a/v 1 has a query"),
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
