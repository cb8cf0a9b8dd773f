"""Who is asking: the API key decides, and owns what it made."""

import hashlib
import hmac
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from server.context import context_of
from server.errors import AuthenticationFailed


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of what a request stores: a digest of its key, never the key itself."""

    id: str


ANYONE = Principal("anyone")

PRINCIPAL = "principal"
"""Where a request's state has its owner."""


def authenticate(connection: HTTPConnection) -> Principal:
    """The request's owner, whose key was checked before anything of the request was read.

    Raises KeyError for a request that came past that check (server.http.access).
    """
    principal: Principal = connection.scope["state"][PRINCIPAL]
    return principal


def check_key(connection: HTTPConnection) -> Principal:
    """The owner of the key in the request's headers.

    Raises AuthenticationFailed where keys are configured and none matches. Without configured keys
    all requests have one owner.
    """
    keys = context_of(connection).settings.api_key
    if not keys:
        return ANYONE
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    given = given.strip()
    if scheme.lower() != "bearer" or not given:
        raise AuthenticationFailed(
            "You didn't provide an API key. Send it as `Authorization: Bearer YOUR_KEY`."
        )
    # Starlette reads a header's bytes as Latin-1; this gives back what the client sent.
    digest = _digest(given.encode("latin-1"))
    # A sum, not any(): all keys are compared, so that the time taken says nothing of them.
    if not sum(hmac.compare_digest(digest, _digest(_key_bytes(key))) for key in keys):
        raise AuthenticationFailed("Incorrect API key provided.")
    return Principal(digest[:32])


def _key_bytes(key: str) -> bytes:
    """The key as it was given: a variable that is no UTF-8 reaches Python with surrogates."""
    return key.encode("utf-8", "surrogateescape")


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
