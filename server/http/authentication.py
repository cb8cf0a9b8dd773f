"""Authentication by API key. Stored objects belong to the key that created them."""

import hashlib
import hmac
from collections.abc import Sequence

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


def check_key(connection: HTTPConnection, keys: Sequence[str]) -> str:
    """The owner for the key in the request's headers: a digest of the key, never the key itself.

    Raises AuthenticationFailed if it is none of `keys`. Without keys all requests have the same
    owner.
    """
    if not keys:
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
    # A sum, not any(): all keys are compared, so that the time does not depend on them.
    if not sum(hmac.compare_digest(digest, _digest(_key_bytes(key))) for key in keys):
        raise AuthenticationFailed("Incorrect API key provided.")
    return digest[:32]


def _key_bytes(key: str) -> bytes:
    """The key's bytes. An environment variable that is not UTF-8 has surrogates in Python."""
    return key.encode("utf-8", "surrogateescape")


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
