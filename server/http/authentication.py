"""Authentication by API key. Stored objects belong to the key that created them."""

import hashlib
from collections.abc import Iterable

from starlette.requests import HTTPConnection

from server.errors import AuthenticationFailed
from server.http.request_state import state_of

ANYONE = "anyone"
"""The owner of all requests where no key is needed."""


def owner_of(connection: HTTPConnection) -> str:
    """The owner of what the request stores, as `server.http.access` has determined it.

    Raises LookupError for a request that has not passed that middleware.
    """
    owner = state_of(connection.scope).owner
    if owner is None:
        raise LookupError("the request's key was not checked")
    return owner


def digests_of(keys: Iterable[str]) -> frozenset[str]:
    """The keys as `check_key` looks them up, so that there may be thousands."""
    # An environment variable that is not UTF-8 has surrogates in Python.
    return frozenset(_digest(key.encode("utf-8", "surrogateescape")) for key in keys)


def check_key(connection: HTTPConnection, digests: frozenset[str]) -> str:
    """The owner for the key in the request's headers: a digest of the key, never the key itself.

    digests: those of the valid keys; without any, all requests have the same owner. Raises
    AuthenticationFailed for any other key.
    """
    if not digests:
        return ANYONE
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    # Not all that Python takes for space: as Latin-1, the bytes of a key may be among it.
    credentials = credentials.strip(" \t")
    if scheme.lower() != "bearer" or not credentials:
        raise AuthenticationFailed(
            "You didn't provide an API key. Send it as `Authorization: Bearer YOUR_KEY`."
        )
    # Starlette decodes headers as Latin-1; this restores the client's bytes.
    digest = _digest(credentials.encode("latin-1"))
    # The time of this lookup reveals no key: nobody can choose the digest of a guess.
    if digest not in digests:
        raise AuthenticationFailed("Incorrect API key provided.")
    return digest[:32]


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
