"""An httpx transport that leaves no connection open where a request is cancelled.

httpcore shields the ends of its exchanges from anyio's cancel scopes, but not from `Task.cancel`: a
connection whose task is cancelled while it opens or closes stays in the pool for good. Both happen
in tasks of their own here, whose scopes are cancelled instead.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import httpx

from adapters.completion import completed


class CancelSafeTransport(httpx.AsyncBaseTransport):
    """Sends the requests of a client by another transport, `inner`."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response to `request`, of which no body has been read. Raises httpx's errors."""
        responses: list[httpx.Response] = []

        async def send() -> None:
            responses.append(await self._inner.handle_async_request(request))

        try:
            await _in_scope(send)
        except asyncio.CancelledError:
            # The response may have come at the same moment.
            for response in responses:
                await _in_scope(response.aclose)
            raise
        (response,) = responses
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await _in_scope(self._inner.aclose)


class _Body(httpx.AsyncByteStream):
    """The body of a response; its end gives the connection back, or closes it."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._inner)

    async def aclose(self) -> None:
        await _in_scope(self._inner.aclose)


async def _in_scope(step: Callable[[], Awaitable[None]]) -> None:
    """Await `step` in a task of its own.

    A cancellation of the caller cancels the scope of the task, and is raised when it has ended.
    """
    scope = anyio.CancelScope()

    async def scoped() -> None:
        with scope:
            await step()

    await completed(scoped(), scope.cancel)
