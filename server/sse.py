"""Server-sent events: what has piled up while the socket was busy goes out in one write."""

from collections.abc import AsyncGenerator, Callable

import orjson
from sse_starlette import EventSourceResponse

from server.runs import Run, WireEvent

Encode = Callable[[WireEvent], bytes]

DONE = b"data: [DONE]\n\n"


def named(event: WireEvent) -> bytes:
    """Responses' form: the `event:` line repeats the data's `type`."""
    name: str = event["type"]
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(event))


def unnamed(event: WireEvent) -> bytes:
    """Chat's form: data alone."""
    return b"data: %s\n\n" % orjson.dumps(event)


def stream(run: Run, encode: Encode, *, start: int = 0) -> EventSourceResponse:
    """The run's events from `start` on, then `[DONE]`; leaving it unsubscribes."""
    return EventSourceResponse(_write(run, encode, start), sep="\n")


async def _write(run: Run, encode: Encode, start: int) -> AsyncGenerator[bytes, None]:
    events = run.follow(start)
    try:
        async for batch in events:
            yield b"".join(map(encode, batch))
        yield DONE
    finally:
        await events.aclose()
