"""Retries that are answered once: requests with an `Idempotency-Key`.

The first request with a key is answered as any other, except that it outlives its client. A retry
with the same key, owner, path and body gets that answer from its first byte, also while it is still
being made. Answers are kept in this process's memory; of the request, a digest.

Sources: draft-ietf-httpapi-idempotency-key-header, and
https://docs.stripe.com/api/idempotent_requests for `Idempotent-Replayed` and what is kept, which
is no answer that may be better the next time, such as a stream that ended with an error. A key
that comes with another body is a 422, as the draft says: SDKs take a 409 for a reason to retry.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import APIError, InvalidRequest, KeyReused
from server.http.answers import error_response
from server.http.authentication import PRINCIPAL
from server.http.bodies import LEASE, read_body
from server.http.budget import Lease
from server.http.disconnect import left
from server.http.sse import SEND_BODY

logger = logging.getLogger(__name__)

CAPACITY = 64 * 1024 * 1024
MAX_ENTRIES = 16_384
OVERHEAD = 1024
"""Bytes that an answer takes beside its body."""
MAX_KEY = 255
LARGE = 256 * 1024
_NOT_KEPT = frozenset({401, 403, 429, 499})

_Key = tuple[str, str, str]


class Idempotency:
    """Answers each POST with a key once, for an owner that is known.

    capacity: bytes of answers that are kept, max_entries: their number; what was least recently
    used is forgotten first.
    """

    def __init__(
        self, app: ASGIApp, capacity: int = CAPACITY, max_entries: int = MAX_ENTRIES
    ) -> None:
        self._app = app
        self._capacity = capacity
        self._max_entries = max_entries
        self._running: dict[_Key, _Answer] = {}
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        key = _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        try:
            if len(key[-1]) > MAX_KEY:
                raise InvalidRequest(f"An Idempotency-Key has at most {MAX_KEY} characters.")
            body = await read_body(receive)
            if body is None:
                return
            digest = await _digest(body)
            known = self._known(key, digest)
        except APIError as error:
            await error_response(error)(scope, receive, send)
            return
        lease: Lease | None = scope["state"].get(LEASE)
        if known is None:
            answer = self._begin(key, _Answer(digest, self._app, scope, body), scope["state"])
            if lease is not None:
                lease.outlast(answer.task)
        elif lease is not None:
            lease.release()
        del body
        await (known or answer).send(receive, send, replayed=known is not None)

    def _known(self, key: _Key, digest: bytes) -> "_Answer | _Kept | None":
        """The answer to an earlier request. Raises KeyReused where that had another body."""
        known = self._running.get(key) or self._kept.get(key)
        if known is not None and known.digest != digest:
            raise KeyReused("This Idempotency-Key was used with another request body.")
        if key in self._kept:
            self._kept.move_to_end(key)
        return known

    def _begin(self, key: _Key, answer: "_Answer", state: dict[str, Any]) -> "_Answer":
        self._running[key] = answer
        answer.task.add_done_callback(lambda _: self._finished(key, answer, state))
        return answer

    def _finished(self, key: _Key, answer: "_Answer", state: dict[str, Any]) -> None:
        del self._running[key]
        run = state.get("run")
        failed = run is not None and run.error is not None
        whole = answer.whole()
        if whole is None or failed:
            return
        self._kept[key] = whole
        self._size += whole.size
        while self._size > self._capacity or len(self._kept) > self._max_entries:
            _, forgotten = self._kept.popitem(last=False)
            self._size -= forgotten.size


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer that has ended, for those who ask again. Of its request, a digest."""

    digest: bytes
    start: Message
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that it takes in memory."""
        return OVERHEAD + len(self.body)

    async def send(self, _: Receive, send: Send, *, replayed: bool) -> None:
        """Send it in one piece."""
        await send(_marked(self.start, replayed=replayed))
        await send({"type": "http.response.body", "body": self.body})


class _Answer:
    """What the application sends for one request, as it comes, for all who ask for it."""

    def __init__(self, digest: bytes, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self.digest = digest
        self._messages: list[Message] = []
        self._readers: set[asyncio.Event] = set()
        self._request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        if SEND_BODY in scope["state"]:
            scope["state"][SEND_BODY] = self._record
        self.task = asyncio.ensure_future(app(scope, self._receive, self._record))
        self.task.add_done_callback(lambda _: self._wake())

    def whole(self) -> _Kept | None:
        """Of one that has ended: what a retry gets too; None where it may get a better one.

        Its many small messages become one.
        """
        if self.task.cancelled():
            return None
        if (error := self.task.exception()) is not None:
            if not self._readers:
                logger.error("an answer that nobody waits for failed", exc_info=error)
            return None
        if not self._messages:
            return None
        start, *parts = self._messages
        if start["status"] >= 500 or start["status"] in _NOT_KEPT:
            return None
        body = b"".join(part.get("body", b"") for part in parts)
        # A copy: orjson's bytes take 4 KiB, however few they are.
        return _Kept(self.digest, start, bytes(memoryview(body)))

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
        self._wake()

    def _wake(self) -> None:
        for news in self._readers:
            news.set()


async def _digest(body: bytes) -> bytes:
    """On a thread where it takes longer than starting one."""
    if len(body) <= LARGE:
        return hashlib.sha256(body).digest()
    return (await asyncio.to_thread(hashlib.sha256, body)).digest()


def _key(scope: Scope) -> _Key | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    given = Headers(scope=scope).get("idempotency-key")
    principal = scope.get("state", {}).get(PRINCIPAL)
    # Without a principal, no route takes the request, or one that is open to all.
    return None if given is None or principal is None else (principal.id, scope["path"], given)


def _marked(message: Message, *, replayed: bool) -> Message:
    """A copy, since whoever sends it may change its headers."""
    if message["type"] != "http.response.start":
        return message
    marked = {**message, "headers": list(message.get("headers", ()))}
    if replayed:
        MutableHeaders(scope=marked)["idempotent-replayed"] = "true"
    return marked
