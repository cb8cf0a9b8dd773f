"""The Responses API over a WebSocket.

Each message of the client is a `response.create` event. The server sends the events of the response
as in an HTTP stream, one in each message. Requests that name a lane by `stream_id` get events with
the same `stream_id`.

The connection remembers the last response of each lane if that is not stored, until a request of
the lane that continues it fails. A stored response that continues one that is not stored can be
retrieved by its id from anywhere, but only this connection can continue it, because the store lacks
its history.

Sources: the Open Responses specification (2026-04-24), "WebSocket transport", and
https://developers.openai.com/api/docs/guides/websocket-mode for `generate` and the error statuses.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import aclosing
from functools import partial
from typing import Any

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from server import threads
from server.context import Context
from server.errors import APIError, InvalidRequest, ServerFailed
from server.generation.runs import WireEvent
from server.http.answers.backlog import open_backlog
from server.http.bodies import json_body
from server.http.bodies.budget import Lease
from server.http.bodies.json_text import validate
from server.outbound.responses.failure import status_of
from server.outbound.responses.fold import DEFINING_EVENTS, fold
from server.responses.creating import StartedResponse, create
from server.responses.lanes import Lane, Lanes
from server.schemas.base import note_unknown
from server.schemas.fields import mapping, optional_boolean, string, wrong_type
from server.schemas.responses import CreateResponse
from server.store.responses.base import UNFINISHED, StoredResponse

logger = logging.getLogger(__name__)

LIFETIME = 3600.0
"""The age in seconds after which a connection accepts no further request."""

GOING_AWAY = 1001
"""The close code of a server that is stopping (RFC 6455, 7.4.1)."""

_TRANSPORT_FIELDS = ("type", "stream", "stream_options", "stream_id", "generate")


class ConnectionExpired(APIError):
    """The connection has reached its maximum age. The client can continue on a new one."""

    status = 400
    type = "invalid_request_error"
    default_code = "websocket_connection_limit_reached"


class SteeringRefused(InvalidRequest):
    """An answer in progress takes no more input. The client gets its input back."""

    default_code = "steering_not_supported"

    def __init__(self, response_id: str, input: Any) -> None:
        super().__init__(
            "This server does not steer answers in progress. Send the input with the next"
            " 'response.create'."
        )
        self.steer = {"input": input, "previous_response_id": response_id}


class Closed(Exception):
    """The client has left, or the server has closed the connection."""


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
        self._lease = Lease(context.body_budget)
        self._lanes = Lanes(self._turn, self._lease)
        self._remembered: dict[Lane, StoredResponse] = {}

    async def serve(self) -> None:
        """Serve until the client disconnects, the lifetime ends, or the server stops.

        A client that disconnects cancels the response in progress. A server that stops finishes it
        first.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._close_when_expired())
                tasks.create_task(self._close_when_stopping())
                tasks.create_task(self._lanes.serve())
                tasks.create_task(self._read())
        except* (Closed, WebSocketDisconnect):  # sending to a client that is gone raises the latter
            pass
        finally:
            self._lease.release()

    async def _read(self) -> None:
        # It never waits for an answer: while it does not read, pings are not answered and no
        # disconnect is seen.
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            self._lanes.take(message.get("bytes") or message.get("text", "").encode())
        raise Closed

    async def _close_when_expired(self) -> None:
        await asyncio.sleep(self._lifetime)
        await self._lanes.end()
        error = "This connection has reached its time limit. Open a new one to continue."
        await self._send(error_message(ConnectionExpired(error)))
        await self._websocket.close()
        raise Closed

    async def _close_when_stopping(self) -> None:
        await self._context.draining.wait()
        await self._lanes.end()
        await self._websocket.close(GOING_AWAY, "The server is stopping.")
        raise Closed

    async def _turn(self, message: bytes | APIError, lane: Lane) -> None:
        began = time.perf_counter()
        if isinstance(message, APIError):
            await self._refuse(message, lane, began)
            return
        previous_id = None
        try:
            event = mapping(await json_body.read_json(message), "event")
            _refuse_steering(event)
            previous_id = event.get("previous_response_id")
            started = await self._create(event)
        except Exception as error:
            self._forget(lane, previous_id)
            await self._refuse(error, lane, began)
            return
        response = fold(await self._send_events(started, lane))
        self._remember(lane, started, response, previous_id)
        _log(response["status"], began, response["id"])

    async def _refuse(self, error: Exception, lane: Lane, began: float) -> None:
        # Not in the frame that caught the error: the traceback has that frame, so a variable there
        # would be a cycle, and keep the request in memory until the next collection.
        answer = _as_api_error(error)
        self._context.traffic.observer.refused(answer.code)
        await self._send(_as_sent(error_message(answer), lane))
        _log(answer.status, began, "no response")

    async def _send_events(self, started: StartedResponse, lane: Lane) -> Iterable[WireEvent]:
        """Send all events of a response. Returns the events that `fold` needs."""
        defining: dict[int, WireEvent] = {}

        def encode(event: WireEvent) -> tuple[bytes]:
            if event["type"] in DEFINING_EVENTS:
                defining[event["sequence_number"]] = event
            # Copied because the bytes that orjson returns own a larger buffer of some kilobytes.
            return (b"%b" % orjson.dumps(_as_sent(event, lane)),)

        def wake() -> None:
            backlog.hold()
            has_events.set()

        has_events = asyncio.Event()
        with open_backlog(started.feed(self._context, encode), wake) as backlog:
            while True:
                has_events.clear()
                if events := backlog.take():
                    for event in events:
                        await self._send_text(event)
                elif started.run.done or backlog.resume_at is not None:
                    break
                else:
                    await has_events.wait()
            if backlog.resume_at is not None:
                async with aclosing(backlog.rest()) as batches:
                    async for batch in batches:
                        for stored_event in batch:
                            (text,) = encode(stored_event)
                            await self._send_text(text)
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
            previous=self._remembered_as(request.previous_response_id),
            generate=generate is not False,
        )

    def _remember(
        self, lane: Lane, started: StartedResponse, response: dict[str, Any], previous_id: Any
    ) -> None:
        if response["status"] == "failed":
            self._forget(lane, previous_id)
        elif response["status"] in UNFINISHED:
            return  # its end could not be read back from the store
        elif started.stored.detached or not response["store"]:
            self._remembered[lane] = started.ended(response)

    def _remembered_as(self, response_id: str | None) -> StoredResponse | None:
        """The response of this id, of any lane: a request may continue that of another one."""
        found = (each for each in self._remembered.values() if each.id == response_id)
        return next(found, None)

    def _forget(self, lane: Lane, response_id: Any) -> None:
        if lane in self._remembered and self._remembered[lane].id == response_id:
            del self._remembered[lane]

    async def _send(self, event: WireEvent) -> None:
        await self._send_text(orjson.dumps(event))

    async def _send_text(self, text: bytes) -> None:
        """Raises WebSocketDisconnect if the client is gone, to each lane that sends."""
        if self._websocket.application_state is WebSocketState.DISCONNECTED:
            raise WebSocketDisconnect
        await self._websocket.send_text(text.decode())


def error_message(error: APIError) -> WireEvent:
    """The message for a request that started no response: an `error`, unless it would steer one.

    Clients take an `error` for the end of the lane's next answer.
    """
    body = error.body()["error"]
    if isinstance(error, SteeringRefused):
        fields = {name: body[name] for name in ("type", "code", "message")}
        failed = {"type": "response.steer.failed", "sequence_number": 0}
        return {**failed, "error": fields, "steer": error.steer}
    fields = {**body, "headers": error.headers}
    return {"type": "error", "status": error.status, "error": fields}


def _refuse_steering(event: dict[str, Any]) -> None:
    """Raises SteeringRefused, or InvalidRequest for a field, if the event would steer an answer."""
    if event.get("type") == "response.steer":
        response_id = string(event.get("previous_response_id"), "previous_response_id")
        if not isinstance(event.get("input"), str | list):
            raise wrong_type(event.get("input"), "input", str, list)
        raise SteeringRefused(response_id, event["input"])


def _as_api_error(error: Exception) -> APIError:
    if isinstance(error, APIError):
        return error
    logger.error("a WebSocket request failed", exc_info=error)
    return ServerFailed()


def _log(status: Any, began: float, about: str) -> None:
    """Log a turn in the form of an HTTP request."""
    logger.info("WS /v1/responses %s %.3fs %s", status, time.perf_counter() - began, about)


def _as_sent(event: WireEvent, lane: Lane) -> WireEvent:
    """The event with its lane, and an error with its status."""
    added: WireEvent = {} if lane is None else {"stream_id": lane}
    if event["type"] == "error" and "status" not in event:
        added["status"] = status_of(event)
    return {**event, **added} if added else event
