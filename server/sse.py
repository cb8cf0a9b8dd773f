"""Server-sent events: what has piled up while the socket was busy goes out in one write."""

from collections.abc import AsyncGenerator, Callable, Sequence

import orjson
from sse_starlette import EventSourceResponse
from starlette.types import Message, Send

from server.runs import Run, WireEvent

Batches = AsyncGenerator[Sequence[WireEvent], None]
Encode = Callable[[WireEvent], bytes]

DONE = b"data: [DONE]\n\n"


class EventStream(EventSourceResponse):
    """A response that sends each write as it is: who reads slowly is waited for.

    The library opens a cancel scope around every write, also where it has no time limit. That
    would be a quarter of what a token costs this process.
    """

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        await send(message)


def named(event: WireEvent) -> bytes:
    """Responses' form: the `event:` line repeats the data's `type`."""
    name: str = event["type"]
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(event))


def unnamed(event: WireEvent) -> bytes:
    """Chat's form: data alone."""
    return b"data: %s\n\n" % orjson.dumps(event)


def stream(run: Run, encode: Encode) -> EventStream:
    """The run's events, then `[DONE]`; leaving it unsubscribes."""
    return stream_batches(run.follow(), encode)


def stream_batches(events: Batches, encode: Encode) -> EventStream:
    """The events, then `[DONE]`; leaving it closes the generator."""
    return EventStream(_write(events, encode), sep="\n")


async def _write(events: Batches, encode: Encode) -> AsyncGenerator[bytes, None]:
    try:
        async for batch in events:
            yield b"".join(map(encode, batch))
        yield DONE
    finally:
        await events.aclose()
