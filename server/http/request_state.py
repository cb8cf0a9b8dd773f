"""The state of one request: what its middleware and its route share."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.types import Scope, Send

from server.generation.runs import Run
from server.http.bodies.budget import Lease

_KEY = "request"


@dataclass(slots=True)
class RequestState:
    """What is known of a request, or of a WebSocket.

    request_id: the answer's `x-request-id`; empty for a WebSocket. endpoint, route: what answers
    it, and the path with the names of its parameters; None if the request matches no route.
    owner: the owner of what it stores; None if it matches no route or a public endpoint.
    body_lease: the memory of its body; None if nobody reads one in one piece. streams_body: whether
    the endpoint reads the body piece by piece. send_body: the `send` for the messages with a
    stream's events; None if they take the same way as all others. Most middleware wraps `send` only
    to change headers; middleware that reads bodies replaces this one. run: what makes the answer,
    None if that is no run; the status of a stream does not show how it ended. error_code: that of
    the error that answered the request. unlogged: whether its log line is left out where it
    succeeded: a page loads a dozen files, and asks for every block of an answer.
    """

    request_id: str = ""
    endpoint: Any = None
    route: str | None = None
    owner: str | None = None
    body_lease: Lease | None = None
    streams_body: bool = False
    send_body: Send | None = None
    run: Run | None = None
    error_code: str | None = None
    unlogged: bool = False


def state_of(scope: Scope) -> RequestState:
    """The state of the request with this scope. The first call creates it."""
    state: RequestState = scope.setdefault("state", {}).setdefault(_KEY, RequestState())
    return state


def from_client(client: Sequence[Any] | None) -> str:
    """The end of a log line that names the client: " from ADDRESS"; "" if it has no address.

    client: the address and the port, as ASGI has them. A proxy may have stated the address, so it
    is quoted.
    """
    return f" from {quote(str(client[0]), safe=':')}" if client else ""


def new_request_id() -> str:
    """An id for the header `x-request-id`."""
    return f"req_{uuid.uuid4().hex}"
