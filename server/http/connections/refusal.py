"""Error responses that are sent without the application, in OpenAI's body."""

import logging
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from server.errors import APIError
from server.http.request_state import from_client, new_request_id

logger = logging.getLogger(__name__)


def refusal(error: APIError, client: Sequence[Any] | None) -> Response:
    """The response for `error`, which closes the connection. Its `x-request-id` is logged.

    client: its address and port; None without one.
    """
    request_id = new_request_id()
    logger.info(
        "refused with %d (%s) %s%s", error.status, error.code, request_id, from_client(client)
    )
    return Response(
        orjson.dumps(error.body()),
        status_code=error.status,
        headers={**error.headers, "x-request-id": request_id, "connection": "close"},
        media_type="application/json",
    )


def encoded(response: Response, default_headers: list[tuple[bytes, bytes]]) -> bytes:
    """A response as HTTP/1.1 bytes. default_headers: those of the server, such as the date."""
    headers = (*default_headers, *response.raw_headers)
    lines = b"".join(b"%s: %s\r\n" % header for header in headers)
    return b"%s%s\r\n%s" % (STATUS_LINE[response.status_code], lines, bytes(response.body))


class Refuse:
    """An ASGI application that answers every request with one error."""

    def __init__(self, error: APIError) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        await refusal(self._error, scope["client"])(scope, receive, send)
