"""A queue of items from an engine to the generator of one request."""

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """The items of one request, in order. Used on the event loop only."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Item) -> None:
        """Append `item`, and wake the task that waits in `take`."""
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[Item]:
        """Remove and return all items; waits for at least one. One task may wait at a time."""
        if not self._items:
            if self._loop is None:
                # Cached, since each call of get_running_loop also makes a system call (getpid).
                self._loop = asyncio.get_running_loop()
            self._waiter = self._loop.create_future()
            await self._waiter
        items, self._items = self._items, []
        return items
