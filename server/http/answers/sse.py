"""Server-sent events: streams of a run's events, with those that are ready in one write."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from itertools import chain
from time import monotonic

from sse_starlette import EventSourceResponse
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.encoding.json_pieces import joined
from server.generation.runs import Encode, Run
from server.http.answers.backlog import Backlog, Batches, Feed, open_backlog
from server.http.answers.eager_coroutine import Suspended, run_until_suspended
from server.http.connections.disconnect import wait_for_disconnect
from server.http.request_state import state_of

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
PING_SECONDS = 15.0
WRITE_INTERVAL = 0.005
"""Least seconds between two writes to a client that are due to new events.

Events of answers with more than 200 tokens per second share writes, since a write costs about as
much as all other work for an event.
"""

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class RunStream(Response):
    """A stream of a feed's events, then `[DONE]`.

    A comment every PING_SECONDS keeps the connection open. The stream is a reader of the run until
    it ends or the client disconnects.
    """

    def __init__(self, feed: Feed) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = list(_HEADERS)
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        leaving = asyncio.ensure_future(wait_for_disconnect(receive))
        send_body = state_of(scope).send_body or send
        writer = _Writer(self._feed.run, send_body, leaving)
        head = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        try:
            with open_backlog(self._feed, writer.wake) as backlog:
                await writer.write_all(send, head, backlog)
                if backlog.resume_at is not None and not leaving.done():
                    await self._write_rest(backlog, scope, send_body, leaving)
                    return
            if not leaving.done():
                await send({"type": "http.response.body", "body": DONE})
        finally:
            leaving.cancel()

    async def _write_rest(
        self, backlog: Backlog, scope: Scope, send: Send, leaving: "asyncio.Future[None]"
    ) -> None:
        """Send the rest from the store, still as a reader of the run, which may be sampling."""

        async def receive() -> Message:
            await asyncio.wait({leaving})
            return {"type": "http.disconnect"}

        async def send_bodies(message: Message) -> None:
            if message["type"] == "http.response.body":
                await send(message)

        await stream_batches(backlog.rest(), self._feed.encode)(scope, receive, send_bodies)


class _Writer:
    """Writes a run's events to one client. send: for body messages.

    As long as the client reads fast enough, the run's own task writes the events, so that no other
    task has to be woken for each stream and token. Events that come within `WRITE_INTERVAL` after
    a write are written together at its end.
    """

    def __init__(self, run: Run, send: Send, leaving: "asyncio.Future[None]") -> None:
        self._run = run
        self._send = send
        self._leaving = leaving
        self._backlog: Backlog
        self._blocked: Suspended | None = None
        self._failure: BaseException | None = None
        self._attention = asyncio.Event()
        self._written_at = -WRITE_INTERVAL
        self._delayed: asyncio.TimerHandle | None = None

    async def write_all(self, send: Send, head: Message, backlog: Backlog) -> None:
        """Write the head, with `send`, and the events.

        Returns when all is written, the rest must be read from the store, or the client has
        disconnected. Raises errors of writing.
        """
        self._backlog = backlog
        self._leaving.add_done_callback(lambda _: self._attention.set())
        self._ping_later()
        try:
            self._write(send, head)
            self.push()
            await self._attend()
        finally:
            self._next_ping.cancel()
            self._end_delay()
            if self._blocked is not None:
                self._blocked.close()

    async def _attend(self) -> None:
        """Do what the run's task must not: wait for the client, raise errors, and end."""
        while not self._leaving.done():
            if self._failure is not None:
                raise self._failure
            if self._blocked is not None:
                await self._go_on(self._blocked)
            elif self._backlog.has_more or (self._delayed is not None and self._run.done):
                await asyncio.sleep(0)
                self.push()
            elif self._backlog.resume_at is not None or self._run.done:
                return
            else:
                await self._attention.wait()
                self._attention.clear()

    async def _go_on(self, blocked: Suspended) -> None:
        writing = asyncio.ensure_future(blocked)
        try:
            await asyncio.wait({writing, self._leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
                self._blocked = None
                self.push()
        finally:
            writing.cancel()
            await asyncio.wait({writing})

    def wake(self) -> None:
        """Write new events, now or at the end of the interval. Nothing waits once the run is done.

        Called by the run.
        """
        if self._run.done or self._blocked is not None:
            self.push()
        elif self._delayed is None:
            seconds = self._written_at + WRITE_INTERVAL - monotonic()
            if seconds > 0:
                loop = asyncio.get_running_loop()
                self._delayed = loop.call_later(seconds, self.push)
            else:
                self.push()

    def push(self, comment: bytes = b"") -> None:
        """Write new events, or buffer them while the client does not read."""
        self._end_delay()
        try:
            if self._blocked is not None:
                self._backlog.hold()
            elif self._failure is None:
                body = b"".join(self._backlog.take())
                if not self._backlog.has_more:  # else it may be within an event
                    body += comment
                if body:
                    self._written_at = monotonic()
                    message = {"type": "http.response.body", "body": body, "more_body": True}
                    self._write(self._send, message)
                if self._backlog.has_more or self._run.done:
                    self._attention.set()
        except Exception as error:
            self._failure = error
        if self._blocked is not None or self._failure is not None:
            self._attention.set()

    def _write(self, send: Send, message: Message) -> None:
        try:
            self._blocked = run_until_suspended(send(message))
        except (Exception, asyncio.CancelledError) as error:
            # The error is this client's: the run and its other readers continue.
            self._failure = error

    def _end_delay(self) -> None:
        if self._delayed is not None:
            self._delayed.cancel()
            self._delayed = None

    def _ping_later(self) -> None:
        self._next_ping = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)

    def _ping(self) -> None:
        self.push(PING)
        self._ping_later()


def stream_batches(events: Batches, encode: Encode) -> Response:
    """A stream of the events, then `[DONE]`. The generator is closed if the client disconnects.

    A comment every PING_SECONDS without events keeps the connection open.
    """
    # The pings of sse-starlette could come within a large event, which is sent in parts.
    response = EventSourceResponse(_write(events, encode), sep="\n", ping=0)
    # The HTTP server decides whether the connection stays open.
    del response.headers["connection"]
    return response


async def _write(events: Batches, encode: Encode) -> AsyncGenerator[bytes, None]:
    try:
        next_batch = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                if not (await asyncio.wait({next_batch}, timeout=PING_SECONDS))[0]:
                    yield PING
                    continue
                if (batch := next_batch.result()) is None:
                    break
                for part in joined(chain.from_iterable(map(encode, batch))):
                    yield part
                next_batch = asyncio.ensure_future(anext(events, None))
        finally:
            # A generator that still runs cannot be closed. The task group of sse-starlette cancels
            # this wait again and again.
            next_batch.cancel()
            while not next_batch.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({next_batch})
        yield DONE
    finally:
        await events.aclose()
