"""Idempotent retries: requests with the same `Idempotency-Key` get the same answer.

The first request with a key is answered as any other, but continues if its client disconnects. A
retry with the same key, owner, address and body gets that answer from its first byte, even while it
is still being made. Answers, and digests of their requests, are stored in this process's memory.

Sources: draft-ietf-httpapi-idempotency-key-header, and
https://docs.stripe.com/api/idempotent_requests for `Idempotent-Replayed` and for the answers that
are stored: none that a retry may improve, such as a stream that ended with an error. A key that is
used again with another body is a 422, as in the draft, because SDKs retry a 409.
"""

import asyncio
import hashlib
import logging
from dataclasses import dataclass

from cachetools import LRUCache
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import APIError, InvalidRequest, KeyReused
from server.http.answers.answer import CLIENT_CLOSED_REQUEST, error_response
from server.http.bodies.body import read_body
from server.http.connections.disconnect import until_disconnect
from server.http.request_state import RequestState, state_of
from server.threads import LARGE

logger = logging.getLogger(__name__)

CAPACITY = 64 * 1024 * 1024
OVERHEAD = 4096
"""Bytes that an answer takes in addition to its body."""
MAX_KEY = 255
_NOT_STORED = frozenset({401, 403, 429, CLIENT_CLOSED_REQUEST})

_Key = tuple[str, str, str]


class Idempotency:
    """Middleware that makes one answer for each key of a POST and owner.

    capacity: bytes of stored answers. The least recently used answers are removed first.
    """

    def __init__(self, app: ASGIApp, capacity: int = CAPACITY) -> None:
        self._app = app
        self._running: dict[_Key, _Answer] = {}
        self._complete: LRUCache[_Key, _CompleteAnswer] = LRUCache(
            capacity, getsizeof=lambda answer: answer.size
        )

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
        state = state_of(scope)
        lease = state.body_lease
        if known is None:
            answer = self._begin(key, _Answer(digest, self._app, scope, body), state)
            if lease is not None:
                lease.extend_until(answer.task)
        elif lease is not None:
            lease.release()
        del body
        if known is None:
            await answer.send(receive, send, replayed=False)
        else:
            await known.send(receive, _coded(known, state, send), replayed=True)

    def _known(self, key: _Key, digest: bytes) -> "_Answer | _CompleteAnswer | None":
        """The answer to an earlier request. Raises KeyReused if that had another body."""
        known = self._running.get(key) or self._complete.get(key)
        if known is not None and known.digest != digest:
            raise KeyReused("This Idempotency-Key was used with another request body.")
        return known

    def _begin(self, key: _Key, answer: "_Answer", state: RequestState) -> "_Answer":
        self._running[key] = answer
        answer.task.add_done_callback(lambda _: self._finished(key, answer, state))
        return answer

    def _finished(self, key: _Key, answer: "_Answer", state: RequestState) -> None:
        del self._running[key]
        failed = state.run is not None and state.run.error is not None
        complete = answer.complete(self._complete.maxsize)
        if complete is not None and not failed:
            self._complete[key] = complete


@dataclass(frozen=True, slots=True)
class _CompleteAnswer:
    """A complete answer, for retries. digest: that of the request's body. code: its error's."""

    digest: bytes
    start: Message
    body: bytes
    code: str | None

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return OVERHEAD + len(self.body)

    async def send(self, _: Receive, send: Send, *, replayed: bool) -> None:
        """Send the answer with one body message."""
        await send(_marked(self.start, replayed=replayed))
        await send({"type": "http.response.body", "body": self.body})


class _Answer:
    """The application's answer to one request, sent to all clients that request it."""

    def __init__(self, digest: bytes, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self.digest = digest
        self._messages: list[Message] = []
        self._size = OVERHEAD
        self._readers: set[asyncio.Event] = set()
        self._state = state_of(scope)
        self._request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        if self._state.send_body is not None:
            self._state.send_body = self._record
        self.task = asyncio.ensure_future(app(scope, self._receive, self._record))
        self.task.add_done_callback(lambda _: self._wake())

    @property
    def code(self) -> str | None:
        """The code of the error that it is. It is known when the answer begins."""
        return self._state.error_code

    def complete(self, most: float) -> _CompleteAnswer | None:
        """The complete answer, its messages joined; None if a retry should make a new answer.

        Call it after the end of the task. most: bytes in memory; a larger answer is None, too.
        """
        if self.task.cancelled():
            return None
        if (error := self.task.exception()) is not None:
            if not self._readers:
                logger.error("an answer that nobody waits for failed", exc_info=error)
            return None
        if not self._messages or self._size > most:
            return None
        start, *parts = self._messages
        if start["status"] >= 500 or start["status"] in _NOT_STORED:
            return None
        # The first part makes a copy of a single other one: bytes from orjson take at least 4 KiB.
        body = b"".join([b"", *(part.get("body", b"") for part in parts)])
        return _CompleteAnswer(self.digest, start, body, self.code)

    async def send(self, receive: Receive, send: Send, *, replayed: bool) -> None:
        """Send the messages as they come, until the client disconnects. Raises the task's error."""
        await until_disconnect(self._write(send, replayed=replayed), receive)

    async def _write(self, send: Send, *, replayed: bool) -> None:
        has_messages = asyncio.Event()
        self._readers.add(has_messages)
        messages = self._messages
        sent = 0
        try:
            while sent < len(messages) or not self.task.done():
                has_messages.clear()
                if sent == len(messages):
                    await has_messages.wait()
                    continue
                await send(_marked(messages[sent], replayed=replayed))
                sent += 1
            self.task.result()
        finally:
            self._readers.discard(has_messages)

    async def _receive(self) -> Message:
        if self._request:
            return self._request.pop()
        # The application sees no disconnect, because a retry may still request the answer.
        await asyncio.Event().wait()
        raise AssertionError

    async def _record(self, message: Message) -> None:
        self._messages.append(message)
        self._size += len(message.get("body", b""))
        self._wake()

    def _wake(self) -> None:
        for has_messages in self._readers:
            has_messages.set()


async def _digest(body: bytes) -> bytes:
    """The body's SHA-256, computed on a thread for a large body."""
    if len(body) <= LARGE:
        return hashlib.sha256(body).digest()
    return (await asyncio.to_thread(hashlib.sha256, body)).digest()


def _key(scope: Scope) -> _Key | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    key = Headers(scope=scope).get("idempotency-key")
    state = state_of(scope)
    if state.streams_body:
        # Its body is not in memory, to compare it with that of a retry.
        return None
    if not key or state.owner is None:
        # An empty key is that of a client whose variable is not set. Without an owner, the request
        # matches no route or a public endpoint.
        return None
    # The query may change the answer, as that of a rendered prompt does.
    query = scope.get("query_string", b"").decode("latin-1")
    address = f"{scope['path']}?{query}"
    return state.owner, address, key


def _coded(answer: _Answer | _CompleteAnswer, state: RequestState, send: Send) -> Send:
    """`send` for a retry in whose state the answer's code is noted, as in that of its request."""

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            state.error_code = answer.code
        await send(message)

    return noting


def _marked(message: Message, *, replayed: bool) -> Message:
    """A copy of the message, because `send` may change its headers; marked if replayed."""
    if message["type"] != "http.response.start":
        return message
    marked = {**message, "headers": list(message.get("headers", ()))}
    if replayed:
        MutableHeaders(scope=marked)["idempotent-replayed"] = "true"
    return marked
