"""The status of an `error` event."""

import pytest

from server.errors import (
    APIError,
    ClientTooSlow,
    ContextLengthExceeded,
    EngineDown,
    InvalidRequest,
    RateLimited,
    ServerFailed,
    Unavailable,
)
from server.outbound.responses.failure import error_event, status_of
from server.store.errors import StoreUnavailable

ERRORS = [
    InvalidRequest("no"),
    InvalidRequest("no", code="invalid_grammar"),
    ContextLengthExceeded("no"),
    ClientTooSlow(1),
    RateLimited("no"),
    ServerFailed("no"),
    APIError("no"),
    APIError("no", code="of_one_place"),
    Unavailable("no"),
    EngineDown("no"),
    StoreUnavailable("no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=[str(error.code) for error in ERRORS])
def test_an_error_event_has_the_status_of_its_error(error: APIError) -> None:
    assert status_of(error_event(error)) == error.status
