"""The Responses API over a WebSocket: a client's turns, one after another.

Each message is a `response.create`; its events come back as on a stream, one to a message. What is
not stored is remembered by the connection alone: the last response, until continuing it fails.
A response that is stored and continues such a one can be retrieved by its id from any connection
of its API key, but continued on this one alone: what the client wanted forgotten is not kept for
its sake.

Sources: the Open Responses specification (2026-04-24), "WebSocket transport", and
https://developers.openai.com/api/docs/guides/websocket-mode for `generate` and the error statuses.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import aclosing, suppress
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
    ClientTooSlow,
    InvalidRequest,
    RateLimited,
    ServerFailed,
)
from server.generation.runs import WireEvent
from server.http import json_body
from server.http.backlog import open_backlog
from server.http.budget import Lease
from server.outbound.fold import DEFINING, fold
from server.persistence.following import stream_stored
from server.responses.creating import StartedResponse, create
from server.schemas.base import note_unknown, refuse
from server.schemas.fields import mapping, optional_boolean
from server.schemas.responses import CreateResponse
from server.store.responses.base import PreviousNotFound, StoredResponse

logger = logging.getLogger(__name__)

LIFETIME = 3600.0
"""Seconds after which a connection takes no further turn."""

WAITING = 2
"""Messages that are read ahead of their turn; each may be as large as a body, and counts as one."""

GOING_AWAY = 1001
"""The code of a close that the server's end is the reason for (RFC 6455, 7.4.1)."""

_STATUSES = {error.default_code: error.status for error in (ClientTooSlow, RateLimited)}
_TRANSPORTS = ("type", "stream", "stream_options", "generate")


class ConnectionExpired(APIError):
    """The connection is as old as it may get; a new one goes on where this one was."""

    status = 400
    type = "invalid_request_error"
    default_code = "websocket_connection_limit_reached"


class Connection:
    """One client's accepted connection. lifetime: seconds."""

    def __init__(
        self, websocket: WebSocket, context: Context, owner: str, *, lifetime: float = LIFETIME
    ) -> None:
        self._websocket = websocket
        self._context = context
        self._owner = owner
        self._lifetime = lifetime
        self._messages: asyncio.Queue[bytes | BodyMemoryExhausted] = asyncio.Queue(WAITING)
        self._lease = Lease(context.body_budget)
        self._remembered: StoredResponse | None = None
        self._turning = asyncio.Lock()

    async def serve(self) -> None:
        """Return when the client has left, the connection has had its time, or the server stops.

        A client that leaves takes the response in progress with it; a server that stops finishes it
        first.
        """
        reading = asyncio.ensure_future(self._read())
        ours = {asyncio.ensure_future(work) for work in (self._answer(), self._leave())}
        tasks = {reading, *ours}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done & ours:
                # Who has left cannot be told any more.
                with suppress(WebSocketDisconnect):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._lease.release()

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            await self._messages.put(self._charged(message))

    def _charged(self, message: Message) -> bytes | BodyMemoryExhausted:
        """The message's text, or the error that is the answer to it."""
        text: bytes = message.get("bytes") or message.get("text", "").encode()
        try:
            self._lease.charge(len(text))
        except BodyMemoryExhausted as error:
            return error
        return text

    async def _answer(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._lifetime
        try:
            while True:
                async with asyncio.timeout_at(deadline):
                    message = await self._messages.get()
                async with self._turning:
                    await self._turn(message)
                if isinstance(message, bytes):
                    self._lease.refund(len(message))
        except TimeoutError:
            told = "This connection has reached its time limit. Open a new one to continue."
            await self._send(envelope(ConnectionExpired(told)))
            await self._websocket.close()

    async def _leave(self) -> None:
        await self._context.draining.wait()
        # Who waits for a lock gets it in turn: no other message comes before. Nor after, since it
        # is not given back.
        await self._turning.acquire()
        await self._websocket.close(GOING_AWAY, "The server is stopping.")

    async def _turn(self, message: bytes | BodyMemoryExhausted) -> None:
        began = time.perf_counter()
        continued = None
        try:
            if isinstance(message, BodyMemoryExhausted):
                raise message
            event = mapping(await json_body.read_json(message), "event")
            continued = event.get("previous_response_id")
            started = await self._create(event)
        except Exception as error:
            self._forget(continued)
            refusal = envelope(_told(error))
            await self._send(refusal)
            _log(refusal["status"], began, "no response")
            return
        response = fold(await self._send_events(started))
        self._remember(started, response, continued)
        _log(response["status"], began, response["id"])

    async def _send_events(self, started: StartedResponse) -> Iterable[WireEvent]:
        """Send all events of a turn. Returns those that define the response."""
        defining: dict[int, WireEvent] = {}

        def encode(event: WireEvent) -> bytes:
            if event["type"] in DEFINING:
                defining[event["sequence_number"]] = event
            # A copy: what orjson returns keeps a buffer of some kilobytes for as long as it lives.
            return b"%b" % orjson.dumps(_with_status(event))

        def wake() -> None:
            backlog.hold()
            news.set()

        run, context = started.run, self._context
        stored = partial(stream_stored, context.store, self._owner, started.response["id"])
        news = asyncio.Event()
        with open_backlog(
            run,
            encode,
            wake,
            limit=context.settings.max_unread,
            stored=stored if run.has_journal else None,
        ) as backlog:
            while backlog.resume_at is None:
                news.clear()
                if events := backlog.take():
                    for event in events:
                        await self._websocket.send_text(event.decode())
                elif run.done:
                    break
                else:
                    await news.wait()
            else:
                async with aclosing(backlog.rest()) as batches:
                    async for batch in batches:
                        for told in batch:
                            await self._websocket.send_text(encode(told).decode())
        return defining.values()

    async def _create(self, event: dict[str, Any]) -> StartedResponse:
        if event.get("type") != "response.create":
            raise InvalidRequest("Expected a 'response.create' event.", param="type")
        generate = optional_boolean(event.get("generate"), "generate")
        fields = {name: value for name, value in event.items() if name not in _TRANSPORTS}
        is_small = threads.is_small(fields)
        wanted = await threads.run(
            partial(json_body.validate, fields, CreateResponse), small=is_small
        )
        refuse("background", wanted.background)
        note_unknown(wanted, "Responses")
        return await create(
            self._context,
            self._owner,
            wanted,
            previous=self._remembered,
            generate=generate is not False,
        )

    def _remember(self, started: StartedResponse, response: dict[str, Any], continued: Any) -> None:
        if response["status"] == "failed":
            self._forget(continued)
        elif started.started.detached or not response["store"]:
            self._remembered = started.started.ended(response, started.messages_by_item_id)

    def _forget(self, response_id: Any) -> None:
        if self._remembered is not None and self._remembered.id == response_id:
            self._remembered = None

    async def _send(self, event: WireEvent) -> None:
        await self._websocket.send_text(orjson.dumps(event).decode())


def envelope(error: APIError) -> WireEvent:
    """The error of a turn that never began."""
    # OpenAI's socket answers 400 where its HTTP answers 404.
    status = 400 if isinstance(error, PreviousNotFound) else error.status
    told = error.body()["error"]
    return {"type": "error", "status": status, "error": {**told, "headers": error.headers}}


def _told(error: Exception) -> APIError:
    if isinstance(error, APIError):
        return error
    logger.error("a turn failed", exc_info=error)
    return ServerFailed("The server had an error while processing your request.")


def _log(status: Any, began: float, about: str) -> None:
    """A turn's line, as a request's."""
    logger.info("WS /v1/responses %s %.3fs %s", status, time.perf_counter() - began, about)


def _with_status(event: WireEvent) -> WireEvent:
    if event["type"] != "error":
        return event
    return {**event, "status": _STATUSES.get(event["error"]["code"], ServerFailed.status)}
