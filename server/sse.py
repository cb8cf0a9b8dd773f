"""Server-sent events: what has piled up while the socket was busy goes out in one write."""

from collections.abc import AsyncGenerator, Callable, Sequence

import orjson
from sse_starlette import EventSourceResponse

from server.runs import Run, WireEvent

Batches = AsyncGenerator[Sequence[WireEvent], None]
Encode = Callable[[WireEvent], bytes]

DONE = b"data: [DONE]\n\n"


def named(event: WireEvent) -> bytes:
    """Responses' form: the `event:` line repeats the data's `type`."""
    name: str = event["type"]
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(event))


def unnamed(event: WireEvent) -> bytes:
    """Chat's form: data alone."""
    return b"data: %s\n\n" % orjson.dumps(event)


def stream(run: Run, encode: Encode) -> EventSourceResponse:
    """The run's events, then `[DONE]`; leaving it unsubscribes."""
    return stream_batches(run.follow(), encode)


def stream_batches(events: Batches, encode: Encode) -> EventSourceResponse:
    """The events, then `[DONE]`; leaving it closes the generator."""
    return EventSourceResponse(_write(events, encode), sep="\n")


async def _write(events: Batches, encode: Encode) -> AsyncGenerator[bytes, None]:
    try:
        async for batch in events:
            yield b"".join(map(encode, batch))
        yield DONE
    finally:
        await events.aclose()
