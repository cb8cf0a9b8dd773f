"""Answers of unknown length to HTTP/1.0 clients, which end with the connection.

uvicorn sends such answers in chunks to all clients. A client of HTTP/1.0 need not know chunks, and
would take their sizes for a part of the answer. uvicorn closes its connection after each answer.

Source: RFC 9112, 6.1 (Transfer-Encoding) and 6.3 (Message Body Length).
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Unframed:
    """An ASGI application: `app`, whose answers have no chunks. cycle: uvicorn's of the request."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        cycle, has_length = self._cycle, False

        async def send_unframed(message: Message) -> None:
            nonlocal has_length
            if message["type"] == "http.response.start":
                names = [name.lower() for name, _ in message.get("headers", ())]
                has_length = b"content-length" in names
                if not has_length:
                    cycle.chunked_encoding = False
            elif not has_length:
                # uvicorn checks the length; here each part is all that is expected until the next.
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_unframed)
