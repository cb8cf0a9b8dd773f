import pytest
from starlette.requests import HTTPConnection

from server.errors import AuthenticationFailed
from server.http.authentication import ANYONE, check_key, digests_of, owner_of
from server.http.request_state import state_of


def connection(header: str | bytes | None) -> HTTPConnection:
    """A request with this `Authorization` header."""
    value = header.encode() if isinstance(header, str) else header
    headers = [] if value is None else [(b"authorization", value)]
    return HTTPConnection({"type": "http", "headers": headers})


def owner(header: str | bytes | None, *keys: str) -> str:
    """The owner of a request with this `Authorization` header, where these keys are valid."""
    return check_key(connection(header), digests_of(keys))


@pytest.mark.parametrize("header", [None, "Bearer anything", "nonsense"])
def test_without_keys_everybody_is_the_same_owner(header: str | None) -> None:
    assert owner(header) == ANYONE


@pytest.mark.parametrize("token", ["first", "second"])
def test_any_of_several_keys_is_let_in(token: str) -> None:
    owner(f"Bearer {token}", "first", "second")


@pytest.mark.parametrize("header", ["bearer key", "BEARER key", "Bearer  key "])
def test_the_scheme_is_read_as_in_http(header: str) -> None:
    owner(header, "key")


@pytest.mark.parametrize("header", [None, "", "key", "Bearer", "Bearer ", "Basic key"])
def test_without_a_key_the_answer_describes_how_to_send_one(header: str | None) -> None:
    with pytest.raises(AuthenticationFailed, match="Bearer YOUR_KEY"):
        owner(header, "key")


@pytest.mark.parametrize(
    "token", ["ke", "keyy", "KEY", "other", "key key", "k\N{LATIN SMALL LETTER E WITH ACUTE}y"]
)
def test_a_wrong_key_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(AuthenticationFailed) as refusal:
        owner(f"Bearer {token}", "key")
    assert refusal.value.message == "Incorrect API key provided."


@pytest.mark.parametrize("key", ["schlüssel", "voilà", "鍵", "\udcff"])
def test_a_key_may_hold_any_bytes(key: str) -> None:
    token = b"Bearer " + key.encode("utf-8", "surrogateescape")
    owner(token, key)


def test_a_key_stays_the_owner_of_what_earlier_versions_stored_for_it() -> None:
    for key, digest in (
        ("key", "2c70e12b7a0646f92279f427c7b38e73"),
        ("schlüssel", "ccec7a8e3e039f0b6b308a81f438e1d0"),
    ):
        assert owner(f"Bearer {key}".encode(), key) == digest


def test_a_route_gets_the_owner_that_was_checked() -> None:
    request = connection("Bearer key")
    with pytest.raises(LookupError):
        owner_of(request)
    state_of(request.scope).owner = owner("Bearer key", "key")
    assert owner_of(request) == owner("Bearer key", "key")


def test_an_owner_belongs_to_a_key_and_does_not_show_it() -> None:
    first = owner("Bearer first", "first", "second")
    assert first == owner("Bearer first", "second", "first")
    assert first != owner("Bearer second", "first", "second")
    assert "first" not in first
