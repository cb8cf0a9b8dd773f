"""What surrounds every request: its id and its line in the log."""

import logging
import time
import uuid
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import APIError, ServerFailed
from server.http.answers import error_response
from server.http.sse import SEND_BODY

logger = logging.getLogger(__name__)


class RequestId:
    """Gives every answer an `x-request-id`, and every error OpenAI's body: a crash is a 500.

    direct: whether the events of a stream may go past what is inside; False where that may look at
    the bodies of answers.
    A request is logged when it ends, under the same id and without its query, which may hold
    secrets.
    """

    def __init__(self, app: ASGIApp, *, direct: bool = True) -> None:
        self._app = app
        self._direct = direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        if self._direct:
            state[SEND_BODY] = send
        status: int | None = None
        began = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            if status is not None:
                # Too late for an answer: the ASGI server logs the error and breaks the connection.
                raise
            answer = error
            if not isinstance(answer, APIError):
                logger.exception("request %s failed", request_id)
                answer = ServerFailed("The server had an error while processing your request.")
            await error_response(answer)(scope, receive, send_with_id)
        finally:
            # It holds the scope: garbage that only a collection would find.
            state.pop(SEND_BODY, None)
            logger.info(
                "%s %s %s %.3fs %s",
                scope["method"],
                quote(scope["path"]),
                status or "unanswered",
                time.perf_counter() - began,
                request_id,
            )
