"""The requests of one WebSocket: which wait, and which are answered at the same time.

A request may name a lane by its `stream_id`. Those of one lane are answered one after another, and
those of different lanes at the same time. Requests without the field have a lane of their own.

Source: https://developers.openai.com/api/docs/guides/websocket-mode
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial

from server import threads
from server.errors import APIError, BodyMemoryExhausted, InvalidRequest, RateLimited
from server.http.bodies.budget import Lease
from server.http.bodies.json_body import read_json, size_of
from server.http.bodies.json_scan import contains
from server.schemas.fields import invalid

MAX_LANES = 32
"""How many lanes may have a name."""

MAX_ANSWERS = 16
"""How many requests are answered at the same time."""

MAX_REQUESTS = MAX_ANSWERS + MAX_LANES
"""How many requests are answered or wait; each may be as large as a request body. One for each lane
fits, even where they come at once."""

_FIELD = b'"stream_id"'
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")

Lane = str | None
"""The name of a lane; None for that of the requests that name none."""

Answer = Callable[[bytes | APIError, Lane], Awaitable[None]]
"""Answers a request, or says why it is refused, on its lane. Raises if the client is gone."""


class TooManyLanes(InvalidRequest):
    """The connection has no room for another named lane."""

    default_code = "websocket_stream_limit_reached"


@dataclass(slots=True)
class Waiting:
    """A request that waits for its turn.

    message: its text, or why it is refused. size: how many bytes of the budget it takes. lane:
    where it is answered. refused: how many came directly after it while no more could wait; they
    are only counted, so that a client cannot fill the memory with them.
    """

    message: bytes | APIError
    size: int = 0
    lane: Lane = None
    refused: int = 0

    def turns(self) -> Iterator[tuple[bytes | APIError, Lane]]:
        """The request and the refusals after it, in the order of their turns.

        More may come meanwhile: only the end of the last one gives a place to the next request.
        """
        yield self.message, self.lane
        while self.refused:
            self.refused -= 1
            yield _too_many(), None  # its lane is not known


class Lanes:
    """The requests of a connection. lease: its part of the memory for bodies."""

    def __init__(self, answer: Answer, lease: Lease) -> None:
        self._answer = answer
        self._lease = lease
        self._taken: asyncio.Queue[Waiting] = asyncio.Queue()
        self._newest = Waiting(b"")
        self._unanswered = 0
        self._lanes: dict[Lane, asyncio.Queue[Waiting]] = {}
        self._places = asyncio.Semaphore(MAX_ANSWERS)
        self._ending = False

    def take(self, text: bytes) -> None:
        """Let the request wait for its turn, or only for its refusal if too many wait."""
        if self._unanswered == MAX_REQUESTS:
            self._newest.refused += 1
            return
        self._unanswered += 1
        self._newest = self._charged(text)
        self._taken.put_nowait(self._newest)

    def _charged(self, text: bytes) -> Waiting:
        """The request, or its refusal if the budget for bodies is exhausted."""
        try:
            self._lease.charge(len(text))
        except BodyMemoryExhausted as error:
            return Waiting(error.without_frames())
        return Waiting(text, len(text))

    async def serve(self) -> None:
        """Answer until it is cancelled. Raises what `answer` raises."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                waiting = await self._taken.get()
                await self._find_lane(waiting)
                # What is refused for its lane waits with those that name none.
                key = waiting.lane if isinstance(waiting.message, bytes) else None
                if key not in self._lanes:
                    self._lanes[key] = asyncio.Queue()
                    tasks.create_task(self._serve_lane(self._lanes[key]))
                self._lanes[key].put_nowait(waiting)

    async def _find_lane(self, waiting: Waiting) -> None:
        """Set the lane of the request, or why it is refused."""
        if isinstance(waiting.message, bytes):
            try:
                waiting.lane = await _lane_of(waiting.message)
            except InvalidRequest as error:
                waiting.message = error.without_frames()  # they hold the text
            named = len(self._lanes.keys() - {None})
            if waiting.lane not in {None, *self._lanes} and named == MAX_LANES:
                waiting.message = TooManyLanes(
                    f"A connection has at most {MAX_LANES} names of lanes ('stream_id').",
                    param="stream_id",
                )

    async def _serve_lane(self, lane: asyncio.Queue[Waiting]) -> None:
        while not self._ending:
            await self._serve_turns(await lane.get())

    async def _serve_turns(self, waiting: Waiting) -> None:
        for message, name in waiting.turns():
            await self._places.acquire()
            if self._ending:
                self._places.release()
                return
            await self._answer(message, name)
            self._places.release()  # but not after a failure, which ends the connection
        waiting.message = b""  # else it stays in memory as the newest one
        self._lease.refund(waiting.size)
        self._unanswered -= 1

    async def end(self) -> None:
        """Wait for the answers in progress, and let no other begin. Returns to its first caller.

        So the connection is closed once.
        """
        if self._ending:
            await asyncio.get_running_loop().create_future()
        self._ending = True
        for _ in range(MAX_ANSWERS):
            await self._places.acquire()


def _too_many() -> RateLimited:
    return RateLimited(
        f"More than {MAX_REQUESTS} requests are answered or wait on this connection. Send the next"
        " ones after an answer has ended."
    )


async def _lane_of(text: bytes) -> Lane:
    """The lane that a request names. Raises InvalidRequest if that is no name.

    Only a request that may name one is read before its turn. One that cannot be read has no lane;
    it is refused in its turn.
    """
    if not await threads.run(partial(contains, text, _FIELD), size_of(text)):
        return None
    try:
        event = await read_json(text)
    except APIError:
        return None
    name = event.get("stream_id") if isinstance(event, dict) else None
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        problem = "expected 1 to 256 letters, digits, underscores, hyphens or periods"
        raise invalid("stream_id", problem, code="invalid_stream_id")
    return name
