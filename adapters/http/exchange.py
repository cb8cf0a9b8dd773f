"""Sends requests so that no cancellation leaves a connection open.

httpcore shields the ends of its exchanges from anyio's cancel scopes, but not from `Task.cancel`: a
connection whose task is cancelled while it opens or closes stays in the pool for good. Both happen
in tasks of their own here, whose scopes are cancelled instead.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import httpx


@asynccontextmanager
async def streamed(
    client: httpx.AsyncClient, request: httpx.Request
) -> AsyncGenerator[httpx.Response, None]:
    """The response to `request`, of which no body has been read. Raises httpx's errors."""
    responses: list[httpx.Response] = []

    async def send() -> None:
        responses.append(await client.send(request, stream=True))

    try:
        await _in_scope(send)
        yield responses[0]
    finally:
        for response in responses:
            await close(response)


def body_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The parts of a body. Their end does not close the response, unlike that of `aiter_raw`."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)


async def close(response: httpx.Response) -> None:
    """Close `response`, or return its connection if the body was read to its end."""
    await _in_scope(response.aclose)


async def _in_scope(step: Callable[[], Awaitable[None]]) -> None:
    """Await `step` in a task of its own.

    A cancellation of the caller cancels the scope of the task, and is raised when it has ended.
    """
    scope = anyio.CancelScope()

    async def scoped() -> None:
        with scope:
            await step()

    task = asyncio.create_task(scoped())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            scope.cancel()
    if cancelled is not None:
        task.cancelled() or task.exception()  # else it counts as never looked at
        raise cancelled
    task.result()
