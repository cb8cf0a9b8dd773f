"""HTTP responses: JSON, errors, and the answer of a run as a stream or as a whole."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server import threads
from server.encoding.json_pieces import in_pieces, joined
from server.errors import APIError
from server.generation.runs import Run, WireEvent
from server.http.answers import sse
from server.http.answers.backlog import Feed
from server.http.connections.disconnect import until_disconnect
from server.http.request_state import state_of

Fold = Callable[[Sequence[WireEvent]], dict[str, Any]]

_JSON = "application/json"
CLIENT_CLOSED_REQUEST = 499
"""The status of an answer whose client has disconnected, as proxies log it."""


def json_response(body: Any, status: int = 200) -> Response:
    """`body` as compact UTF-8 JSON."""
    return _response(in_pieces(body), status)


def _response(pieces: Sequence[bytes], status: int = 200) -> Response:
    if len(pieces) == 1:
        return Response(pieces[0], status_code=status, media_type=_JSON)
    return _LargeResponse(pieces, status)


class _LargeResponse(Response):
    """Sends JSON in parts. Other work runs between them."""

    media_type = _JSON

    def __init__(self, pieces: Sequence[bytes], status: int) -> None:
        super().__init__(None, status, {"content-length": str(sum(map(len, pieces)))})
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        for part in joined(self._pieces):
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


def error_response(error: APIError) -> Response:
    """The response for an error: OpenAI's body, the status, and its headers."""
    response = _ErrorResponse(orjson.dumps(error.body()), error.status, error.code)
    response.headers.update(error.headers)
    return response


class _ErrorResponse(Response):
    """Notes the code of its error in the request's state, for those who count errors."""

    media_type = _JSON

    def __init__(self, body: bytes, status: int, code: str | None) -> None:
        super().__init__(body, status)
        self._code = code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        state_of(scope).error_code = self._code
        await super().__call__(scope, receive, send)


async def respond(
    feed: Feed, request: Request, *, stream: bool, fold: Fold, reads_history: bool = False
) -> Response:
    """The answer of the feed's run: a stream of its events if `stream`, else their fold.

    Raises the run's APIError if it failed and `stream` is False. A foreground run is cancelled when
    its client disconnects. The run is stored in the request's state, because the status of a
    stream does not show how it ended. reads_history: `fold` reads more than the events, of any
    size.
    """
    run = feed.run
    state_of(request.scope).run = run
    if stream:
        return sse.RunStream(feed)
    # Another reader of the run may drop its events before they are folded.
    events: list[WireEvent] = []
    if not await until_disconnect(_collect(run, events), request.receive):
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    if run.error is not None:
        raise run.error
    size = threads.counted(len(events), threads.MOST_EVENTS)
    if reads_history:
        size = threads.Size.MEDIUM
    return _response(await threads.run(lambda: in_pieces(fold(events)), size))


async def _collect(run: Run, events: list[WireEvent]) -> None:
    async with aclosing(run.follow()) as batches:
        async for batch in batches:
            events += batch
