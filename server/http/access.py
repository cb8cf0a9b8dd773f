"""Whether a request may go on, decided by its line and headers alone: before any of its body."""

from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from server.errors import AuthenticationFailed
from server.http.answers import error_response
from server.http.authentication import PRINCIPAL, check_key


class Access:
    """Lets no body be read but for a route, by a client whose key is known.

    open_to_all: the endpoints that need no key; all others do. The principal is left in the
    request's state, for `server.http.authentication.authenticate`.

    What no route takes, such as an unknown path or a wrong method, goes on without its body: the
    application answers it as it does, and nothing that it is made of can read what the client sent.
    """

    def __init__(self, app: ASGIApp, open_to_all: frozenset[Callable[..., Any]]) -> None:
        self._app = app
        self._open_to_all = open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        endpoint = _endpoint(scope)
        if endpoint is None:
            without = receive if scope["type"] == "websocket" else _without_body()
            await self._app(scope, without, send)
            return
        if endpoint not in self._open_to_all:
            connection = HTTPConnection(scope)
            try:
                scope.setdefault("state", {})[PRINCIPAL] = check_key(connection)
            except AuthenticationFailed as error:
                await _refuse(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


def _endpoint(scope: Scope) -> Any:
    """The endpoint that the application will call; None where no route takes the request."""
    for route in scope["app"].router.routes:
        match, child_scope = route.matches(scope)
        if match is Match.FULL:
            return child_scope["endpoint"]
    return None


async def _refuse(error: AuthenticationFailed, scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(error)
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)


def _without_body() -> Receive:
    """What a request without a body receives, and then that its client has left."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive
