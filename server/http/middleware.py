"""Middleware around every request: its id, its log line, and its place in the counts."""

import logging
import time
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import APIError, ServerFailed
from server.http.answers.answer import error_response
from server.http.request_state import from_client, new_request_id, state_of
from server.http.traffic import WEBSOCKET, OpenRequest, RequestEnded, Traffic

logger = logging.getLogger(__name__)

NAMED_STATUSES = frozenset({401, 421, 429, 503})
"""Statuses of answers whose log line has the client's address: those that one client may cause, by
guessing keys or by asking too much."""


class RequestId:
    """Adds an `x-request-id` to every answer, and OpenAI's body to every error.

    Other exceptions become a 500. Each request is logged at its end with the same id, and without
    its query, which may hold secrets. So is a WebSocket's handshake that is refused. The lines of
    NAMED_STATUSES have the client's address.

    direct: whether the events of a stream bypass inner middleware; False if that may read the
    bodies of answers. traffic: counts the requests.
    """

    def __init__(
        self, app: ASGIApp, *, direct: bool = True, traffic: Traffic | None = None
    ) -> None:
        self._app = app
        self._direct = direct
        self._traffic = traffic or Traffic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with self._traffic.request() as opened:
            if scope["type"] == "http":
                await self._answer(scope, receive, send, opened)
            else:
                await self._open_socket(scope, receive, send, opened)

    async def _open_socket(
        self, scope: Scope, receive: Receive, send: Send, opened: OpenRequest
    ) -> None:
        status: int | None = None
        began = time.perf_counter()

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "websocket.accept":
                status = 101
                opened.accepted()
            elif message["type"] == "websocket.http.response.start":
                status = message["status"]
                request_id = new_request_id()
                MutableHeaders(scope=message)["x-request-id"] = request_id
                # The requests on an accepted WebSocket are logged by themselves.
                logger.info(
                    "WS %s %s %.3fs %s%s",
                    quote(scope["path"]),
                    status,
                    time.perf_counter() - began,
                    request_id,
                    _named(scope, status),
                )
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._count(scope, WEBSOCKET, status)

    def _count(self, scope: Scope, method: str, status: int | None) -> None:
        state = state_of(scope)
        ended = RequestEnded(state.route, method, status, state.error_code)
        self._traffic.observer.request_ended(ended)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, opened: OpenRequest
    ) -> None:
        state = state_of(scope)
        request_id = state.request_id = new_request_id()
        if self._direct:
            state.send_body = send
        status: int | None = None
        began = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                if headers.get("content-type", "").startswith("text/event-stream"):
                    opened.streams()
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            if status is not None:
                # The headers were sent: the ASGI server logs the error and closes the connection.
                raise
            answer = error
            if not isinstance(answer, APIError):
                logger.exception("request %s failed", request_id)
                answer = ServerFailed()
            await error_response(answer)(scope, receive, send_with_id)
        finally:
            # It references the scope: a cycle that only a garbage collection would free.
            state.send_body = None
            self._count(scope, scope["method"], status)
            unlogged = state.unlogged and status is not None and status < 400
            logger.log(
                logging.DEBUG if unlogged else logging.INFO,
                "%s %s %s %.3fs %s%s",
                scope["method"],
                quote(scope["path"]),
                status or "unanswered",
                time.perf_counter() - began,
                request_id,
                _named(scope, status),
            )


def _named(scope: Scope, status: int | None) -> str:
    return from_client(scope.get("client")) if status in NAMED_STATUSES else ""
