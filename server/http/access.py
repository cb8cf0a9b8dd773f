"""Access control by the request line and the headers, before the body is read."""

from collections.abc import Callable, Iterable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import AuthenticationFailed, NotFound
from server.http.answers.answer import error_response
from server.http.authentication import check_key, digests_of
from server.http.request_state import state_of


class Access:
    """Middleware that lets only requests with a valid key, to a route, have their bodies read.

    public_endpoints: the endpoints that need no key. keys: the valid ones; if there are none, no
    request needs one. The endpoint, its route and the owner are stored in the request's state, the
    latter for `server.http.authentication.owner_of`.

    A request that matches no route, because of its path or its method, is passed on without its
    body, for the application's own answer. A WebSocket that matches none is refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        public_endpoints: frozenset[Callable[..., Any]],
        keys: Iterable[str],
    ) -> None:
        self._app = app
        self._public_endpoints = public_endpoints
        self._digests = digests_of(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        endpoint, route = _endpoint(scope)
        if endpoint is None:
            if scope["type"] == "websocket":
                # Starlette would refuse it with a 403, without a body.
                await error_response(_unknown(scope["path"]))(scope, receive, send)
            else:
                await self._app(scope, _empty_body(), send)
            return
        state = state_of(scope)
        state.endpoint, state.route = endpoint, route
        if endpoint not in self._public_endpoints:
            connection = HTTPConnection(scope)
            try:
                state.owner = check_key(connection, self._digests)
            except AuthenticationFailed as error:
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _endpoint(scope: Scope) -> tuple[Any, str | None]:
    """The endpoint that the application will call, and its route; None if no route matches."""
    for route in scope["app"].router.routes:
        match, child_scope = route.matches(scope)
        if match is Match.FULL:
            return child_scope["endpoint"], getattr(route, "path", None)
    return None, None


def _unknown(path: str) -> NotFound:
    return NotFound(f"Invalid URL (WebSocket {path})", code="unknown_url")


def _empty_body() -> Receive:
    """Receives an empty body, and then a disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive
