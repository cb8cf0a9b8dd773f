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


def authenticate(connection: HTTPConnection) -> Principal:
    """The request's owner. Raises AuthenticationFailed where keys are set and none matches.

    Without configured keys all requests have one owner.
    """
    keys = context_of(connection).settings.api_key
    if not keys:
        return ANYONE
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        raise AuthenticationFailed(
            "You didn't provide an API key. Send it as `Authorization: Bearer YOUR_KEY`."
        )
    matches = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in keys]
    if not any(matches):
        raise AuthenticationFailed("Incorrect API key provided.")
    return Principal(hashlib.sha256(given.strip().encode()).hexdigest()[:32])
