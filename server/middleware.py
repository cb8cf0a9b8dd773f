"""What surrounds every request: its id and its line in the log, and the limit on its body."""

import logging
import time
import uuid
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import BodyTooLarge, ServerFailed
from server.respond import json_response
from server.sse import SEND_BODY

logger = logging.getLogger(__name__)


class RequestId:
    """Gives every answer an `x-request-id`, and every crash a 500 with OpenAI's body.

    A request is logged when it ends, under the same id and without its query, which may hold
    secrets.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {}).update({"request_id": request_id, SEND_BODY: send})
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
        except Exception:
            if status is not None:
                # Too late for an answer: the ASGI server logs the error and breaks the connection.
                raise
            logger.exception("request %s failed", request_id)
            failure = ServerFailed("The server had an error while processing your request.")
            await json_response(failure.body(), failure.status)(scope, receive, send_with_id)
        finally:
            # It holds the scope: garbage that only a collection would find.
            del scope["state"][SEND_BODY]
            logger.info(
                "%s %s %s %.3fs %s",
                scope["method"],
                quote(scope["path"]),
                status or "unanswered",
                time.perf_counter() - began,
                request_id,
            )


class BodyLimit:
    """Lets a request's body be read up to `limit` bytes; reading on raises BodyTooLarge."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0
        declared = Headers(scope=scope).get("content-length", "")
        promised = int(declared) if declared.isdecimal() else 0

        async def limited() -> Message:
            nonlocal read
            self._refuse_over_limit(promised)
            message = await receive()
            read += len(message.get("body", b""))
            self._refuse_over_limit(read)
            return message

        await self._app(scope, limited, send)

    def _refuse_over_limit(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLarge(f"The request body is larger than {self._limit} bytes.")
