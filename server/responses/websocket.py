"""The Responses API over a WebSocket, one response after another.

Each message of the client is a `response.create` event. The server sends the events of the response
as in an HTTP stream, one in each message.

The connection remembers its last response if that is not stored, until a request that continues it
fails. A stored response that continues one that is not stored can be retrieved by its id from
anywhere, but only this connection can continue it, because the store lacks its history.

Sources: the Open Responses specification (2026-04-24), "WebSocket transport", and
https://developers.openai.com/api/docs/guides/websocket-mode for `generate` and the error statuses.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from server import threads
from server.context import Context
from server.errors import (
    APIError,
    BodyMemoryExhausted,
    InvalidRequest,
    RateLimited,
    ServerFailed,
)
from server.generation.runs import WireEvent
from server.http.answers.backlog import open_backlog
from server.http.bodies import json_body
from server.http.bodies.budget import Lease
from server.http.bodies.json_text import validate
from server.outbound.responses.failure import status_of
from server.outbound.responses.fold import DEFINING_EVENTS, fold
from server.responses.creating import StartedResponse, create
from server.schemas.base import note_unknown
from server.schemas.fields import mapping, optional_boolean
from server.schemas.responses import CreateResponse
from server.store.responses.base import UNFINISHED, StoredResponse

logger = logging.getLogger(__name__)

LIFETIME = 3600.0
"""The age in seconds after which a connection accepts no further request."""

MAX_WAITING_MESSAGES = 16
"""How many messages wait for their turn; each may be as large as a request body."""

GOING_AWAY = 1001
"""The close code of a server that is stopping (RFC 6455, 7.4.1)."""

_TRANSPORT_FIELDS = ("type", "stream", "stream_options", "generate")


class ConnectionExpired(APIError):
    """The connection has reached its maximum age. The client can continue on a new one."""

    status = 400
    type = "invalid_request_error"
    default_code = "websocket_connection_limit_reached"


@dataclass(slots=True)
class Waiting:
    """A message that waits for its turn.

    message: its text, or why it is refused. refused: how many messages came directly after it while
    no more could wait; they are only counted, so that a client cannot fill the memory with them.
    """

    message: bytes | BodyMemoryExhausted
    refused: int = 0

    def turns(self) -> Iterator[bytes | APIError]:
        """The message and the refusals after it, in the order of their turns."""
        yield self.message
        for _ in range(self.refused):
            yield RateLimited(
                f"More than {MAX_WAITING_MESSAGES} requests wait on this connection. Send the next"
                " ones after an answer has ended."
            )


class Connection:
    """The accepted connection of one client.

    websocket: the accepted WebSocket.
    context: the server's shared objects.
    owner: the API key's digest.
    lifetime: the maximum age in seconds.
    """

    def __init__(
        self, websocket: WebSocket, context: Context, owner: str, *, lifetime: float = LIFETIME
    ) -> None:
        self._websocket = websocket
        self._context = context
        self._owner = owner
        self._lifetime = lifetime
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue(MAX_WAITING_MESSAGES)
        self._newest = Waiting(b"")
        self._lease = Lease(context.body_budget)
        self._remembered: StoredResponse | None = None
        self._turn_lock = asyncio.Lock()

    async def serve(self) -> None:
        """Serve until the client disconnects, the lifetime ends, or the server stops.

        A client that disconnects cancels the response in progress. A server that stops finishes it
        first.
        """
        reader = asyncio.ensure_future(self._read())
        workers = {
            asyncio.ensure_future(work) for work in (self._answer(), self._close_when_stopping())
        }
        tasks = {reader, *workers}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done & workers:
                # Sending to a client that has disconnected raises this.
                with suppress(WebSocketDisconnect):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._lease.release()

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            # It never waits: while it does not read, pings are not answered and no disconnect is
            # seen.
            self._take(message)

    def _take(self, message: Message) -> None:
        """Let the message wait for its turn, or only for its refusal if too many wait."""
        if self._waiting.full():
            self._newest.refused += 1
        else:
            self._newest = Waiting(self._charge(message))
            self._waiting.put_nowait(self._newest)

    def _charge(self, message: Message) -> bytes | BodyMemoryExhausted:
        """The message's text, or the error if the budget for bodies is exhausted."""
        text: bytes = message.get("bytes") or message.get("text", "").encode()
        try:
            self._lease.charge(len(text))
        except BodyMemoryExhausted as error:
            return error
        return text

    async def _answer(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._lifetime
        while (waiting := await self._next(deadline)) is not None:
            for message in waiting.turns():
                await self._turn_lock.acquire()
                await self._turn(message)
                self._turn_lock.release()  # but not after a failure, which ends the connection
                if isinstance(message, bytes):
                    self._lease.refund(len(message))
        await self._end_turns()
        error = "This connection has reached its time limit. Open a new one to continue."
        await self._send(error_message(ConnectionExpired(error)))
        await self._websocket.close()

    async def _next(self, deadline: float) -> Waiting | None:
        """The next message; None after the deadline, even if messages wait."""
        if asyncio.get_running_loop().time() < deadline:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    return await self._waiting.get()
        return None

    async def _close_when_stopping(self) -> None:
        await self._context.draining.wait()
        await self._end_turns()
        await self._websocket.close(GOING_AWAY, "The server is stopping.")

    async def _end_turns(self) -> None:
        """Wait for the turn in progress, and let no other begin. Returns to its first caller only.

        So the connection is closed once.
        """
        # The lock is fair, so no further turn begins before it is acquired. It is not released, so
        # none begins afterwards.
        await self._turn_lock.acquire()

    async def _turn(self, message: bytes | APIError) -> None:
        began = time.perf_counter()
        previous_id = None
        try:
            if isinstance(message, APIError):
                raise message
            event = mapping(await json_body.read_json(message), "event")
            previous_id = event.get("previous_response_id")
            started = await self._create(event)
        except Exception as error:
            self._forget(previous_id)
            answer = _as_api_error(error)
            self._context.traffic.observer.refused(answer.code)
            refusal = error_message(answer)
            await self._send(refusal)
            _log(refusal["status"], began, "no response")
            return
        response = fold(await self._send_events(started))
        self._remember(started, response, previous_id)
        _log(response["status"], began, response["id"])

    async def _send_events(self, started: StartedResponse) -> Iterable[WireEvent]:
        """Send all events of a response. Returns the events that `fold` needs."""
        defining: dict[int, WireEvent] = {}

        def encode(event: WireEvent) -> tuple[bytes]:
            if event["type"] in DEFINING_EVENTS:
                defining[event["sequence_number"]] = event
            # Copied because the bytes that orjson returns own a larger buffer of some kilobytes.
            return (b"%b" % orjson.dumps(_with_status(event)),)

        def wake() -> None:
            backlog.hold()
            has_events.set()

        has_events = asyncio.Event()
        with open_backlog(started.feed(self._context, encode), wake) as backlog:
            while True:
                has_events.clear()
                if events := backlog.take():
                    for event in events:
                        await self._websocket.send_text(event.decode())
                elif started.run.done or backlog.resume_at is not None:
                    break
                else:
                    await has_events.wait()
            if backlog.resume_at is not None:
                async with aclosing(backlog.rest()) as batches:
                    async for batch in batches:
                        for stored_event in batch:
                            (text,) = encode(stored_event)
                            await self._websocket.send_text(text.decode())
        return defining.values()

    async def _create(self, event: dict[str, Any]) -> StartedResponse:
        if event.get("type") != "response.create":
            raise InvalidRequest("Expected a 'response.create' event.", param="type")
        generate = optional_boolean(event.get("generate"), "generate")
        fields = {name: value for name, value in event.items() if name not in _TRANSPORT_FIELDS}
        work = partial(validate, fields, CreateResponse)
        request = await threads.run(work, threads.size_of(fields))
        if request.background:
            raise InvalidRequest(
                "A background response cannot be created over a WebSocket. Use HTTP for it.",
                param="background",
                code="unsupported_parameter",
            )
        note_unknown(request, "Responses")
        return await create(
            self._context,
            self._owner,
            request,
            previous=self._remembered,
            generate=generate is not False,
        )

    def _remember(
        self, started: StartedResponse, response: dict[str, Any], previous_id: Any
    ) -> None:
        if response["status"] == "failed":
            self._forget(previous_id)
        elif response["status"] in UNFINISHED:
            return  # its end could not be read back from the store
        elif started.started.detached or not response["store"]:
            self._remembered = started.ended(response)

    def _forget(self, response_id: Any) -> None:
        if self._remembered is not None and self._remembered.id == response_id:
            self._remembered = None

    async def _send(self, event: WireEvent) -> None:
        await self._websocket.send_text(orjson.dumps(event).decode())


def error_message(error: APIError) -> WireEvent:
    """The `error` message for a request that started no response."""
    fields = {**error.body()["error"], "headers": error.headers}
    return {"type": "error", "status": error.status, "error": fields}


def _as_api_error(error: Exception) -> APIError:
    if isinstance(error, APIError):
        return error
    logger.error("a WebSocket request failed", exc_info=error)
    return ServerFailed()


def _log(status: Any, began: float, about: str) -> None:
    """Log a turn in the form of an HTTP request."""
    logger.info("WS /v1/responses %s %.3fs %s", status, time.perf_counter() - began, about)


def _with_status(event: WireEvent) -> WireEvent:
    return event if event["type"] != "error" else {**event, "status": status_of(event)}
