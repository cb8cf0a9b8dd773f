"""A queue of items from an engine to the generator of one request."""

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """The items of one request, in order. Used on the event loop only."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Item) -> None:
        """Append `item`, and wake the task that waits in `take`."""
        self._items.append(item)
        self._wake()

    def fail(self, error: Exception) -> None:
        """End the queue with an error, which `take` raises after the items before it."""
        self._error = self._error or error
        self._wake()

    async def take(self) -> list[Item]:
        """Remove and return all items; waits for at least one. One task may wait at a time.

        Raises the error of `fail` where no item is left.
        """
        if not self._items and self._error is None:
            if self._loop is None:
                # Cached, since each call of get_running_loop also makes a system call (getpid).
                self._loop = asyncio.get_running_loop()
            self._waiter = self._loop.create_future()
            await self._waiter
        if not self._items and self._error is not None:
            raise self._error
        items, self._items = self._items, []
        return items

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
