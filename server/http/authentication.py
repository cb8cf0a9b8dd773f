"""Authentication by API key. Stored objects belong to the key that created them."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from server.errors import AuthenticationFailed


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of a request's stored objects: a digest of its key, never the key itself."""

    id: str


ANYONE = Principal("anyone")

PRINCIPAL = "principal"
"""The key of the request's principal in its state."""


def authenticate(connection: HTTPConnection) -> Principal:
    """The request's owner, as `server.http.access` has determined it.

    Raises KeyError for a request that has not passed that middleware.
    """
    principal: Principal = connection.scope["state"][PRINCIPAL]
    return principal


def check_key(connection: HTTPConnection, keys: Sequence[str]) -> Principal:
    """The owner of the key in the request's headers, which must be one of `keys`.

    Raises AuthenticationFailed if it is none of them. Without keys all requests have the same
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
    return Principal(digest[:32])


def _key_bytes(key: str) -> bytes:
    """The key's bytes. An environment variable that is not UTF-8 has surrogates in Python."""
    return key.encode("utf-8", "surrogateescape")


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
