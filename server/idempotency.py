"""Retries that are answered once: requests with an `Idempotency-Key`.

The first request with a key is answered as any other, except that it outlives its client. A retry
with the same key, credentials, path and body gets that answer from its first byte, also while it
is still being made. Answers are kept in this process's memory.

Sources: draft-ietf-httpapi-idempotency-key-header, and
https://docs.stripe.com/api/idempotent_requests for `Idempotent-Replayed` and what is kept, which
is no answer that may be better the next time, such as a stream that ended with an error. A key
that comes with another body is a 422, as the draft says: SDKs take a 409 for a reason to retry.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.decoding import read_body
from server.disconnect import left
from server.errors import APIError, InvalidRequest, KeyReused
from server.respond import json_response
from server.sse import SEND_BODY

logger = logging.getLogger(__name__)

CAPACITY = 64 * 1024 * 1024
OVERHEAD = 1024
MAX_KEY = 255
_NOT_KEPT = frozenset({401, 403, 429, 499})

_Key = tuple[str, str, str]


class Idempotency:
    """Answers each POST with a key once.

    capacity: bytes of answers that are kept; what was least recently used is forgotten first.
    """

    def __init__(self, app: ASGIApp, capacity: int = CAPACITY) -> None:
        self._app = app
        self._capacity = capacity
        self._answers: OrderedDict[_Key, _Answer] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        key = _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        try:
            body = await read_body(receive)
            if body is not None:
                answer, replayed = self._answer(key, body, scope)
                await answer.send(receive, send, replayed=replayed)
        except APIError as error:
            await json_response(error.body(), error.status)(scope, receive, send)

    def _answer(self, key: _Key, body: bytes, scope: Scope) -> tuple["_Answer", bool]:
        if len(key[-1]) > MAX_KEY:
            raise InvalidRequest(f"An Idempotency-Key has at most {MAX_KEY} characters.")
        digest = hashlib.sha256(body).digest()
        if (known := self._answers.get(key)) is not None:
            if known.digest != digest:
                raise KeyReused("This Idempotency-Key was used with another request body.")
            self._answers.move_to_end(key)
            return known, True
        state = scope.setdefault("state", {})
        answer = self._answers[key] = _Answer(digest, self._app, scope, body)
        answer.task.add_done_callback(lambda _: self._finished(key, answer, state))
        return answer, False

    def _finished(self, key: _Key, answer: "_Answer", state: dict[str, Any]) -> None:
        run = state.get("run")
        failed = run is not None and run.error is not None
        if failed or not answer.is_whole():
            self._answers.pop(key, None)
        size = sum(kept.size for kept in self._answers.values())
        for each, kept in list(self._answers.items()):
            if size > self._capacity and kept.task.done():
                del self._answers[each]
                size -= kept.size


class _Answer:
    """What the application sends for one request, for all who ask for it."""

    def __init__(self, digest: bytes, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self.digest = digest
        self.size = OVERHEAD
        self._messages: list[Message] = []
        self._readers: set[asyncio.Event] = set()
        self._request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        scope.setdefault("state", {})[SEND_BODY] = self._record
        self.task = asyncio.ensure_future(app(scope, self._receive, self._record))
        self.task.add_done_callback(lambda _: self._wake())

    def is_whole(self) -> bool:
        """Of one that has ended: whether a retry is to get it too, and not a better one.

        Its many small messages become one.
        """
        if self.task.cancelled():
            return False
        if (error := self.task.exception()) is not None:
            if not self._readers:
                logger.error("an answer that nobody waits for failed", exc_info=error)
            return False
        if not self._messages:
            return False
        start, *parts = self._messages
        body = b"".join(part.get("body", b"") for part in parts)
        # Who is still sent the old list has it to the end.
        self._messages = [start, {"type": "http.response.body", "body": body}]
        return start["status"] < 500 and start["status"] not in _NOT_KEPT

    async def send(self, receive: Receive, send: Send, *, replayed: bool) -> None:
        """Send it as it comes. Who leaves is no longer sent anything. Raises what broke it."""
        writing = asyncio.ensure_future(self._write(send, replayed=replayed))
        leaving = asyncio.ensure_future(left(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            writing.cancel()
            leaving.cancel()
            await asyncio.wait({writing, leaving})

    async def _write(self, send: Send, *, replayed: bool) -> None:
        news = asyncio.Event()
        self._readers.add(news)
        messages = self._messages
        sent = 0
        try:
            while sent < len(messages) or not self.task.done():
                news.clear()
                if sent == len(messages):
                    await news.wait()
                    continue
                await send(_marked(messages[sent], replayed=replayed))
                sent += 1
            self.task.result()
        finally:
            self._readers.discard(news)

    async def _receive(self) -> Message:
        if self._request:
            return self._request.pop()
        # Nobody hangs up on an answer that others may still ask for.
        await asyncio.Event().wait()
        raise AssertionError

    async def _record(self, message: Message) -> None:
        self._messages.append(message)
        self.size += len(message.get("body", b""))
        self._wake()

    def _wake(self) -> None:
        for news in self._readers:
            news.set()


def _key(scope: Scope) -> _Key | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    headers = Headers(scope=scope)
    given = headers.get("idempotency-key")
    return None if given is None else (headers.get("authorization", ""), scope["path"], given)


def _marked(message: Message, *, replayed: bool) -> Message:
    """A copy, since whoever sends it may change its headers."""
    if message["type"] != "http.response.start":
        return message
    marked = {**message, "headers": list(message.get("headers", ()))}
    if replayed:
        MutableHeaders(scope=marked)["idempotent-replayed"] = "true"
    return marked
