"""What surrounds every request: its id, the limit on its body, and a last answer to a crash."""

import logging
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import BodyTooLarge, ServerFailed
from server.respond import json_response

logger = logging.getLogger(__name__)


class RequestId:
    """Gives every answer an `x-request-id`, and every crash a 500 with OpenAI's body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            logger.exception("request %s failed", request_id)
            if started:
                raise
            failure = ServerFailed("The server had an error while processing your request.")
            await json_response(failure.body(), failure.status)(scope, receive, send_with_id)


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

        async def limited() -> Message:
            nonlocal read
            if declared.isdecimal() and int(declared) > self._limit:
                raise BodyTooLarge(f"The request body is larger than {self._limit} bytes.")
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise BodyTooLarge(f"The request body is larger than {self._limit} bytes.")
            return message

        await self._app(scope, limited, send)
