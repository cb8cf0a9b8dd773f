"""A queue of items from an engine to the generator of one request."""

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items of one request, in order. Belongs to the event loop."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._taker: asyncio.Future[None] | None = None

    def put(self, item: Item) -> None:
        self._items.append(item)
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    async def take(self) -> list[Item]:
        """All that has piled up, at least one item. One taker waits at a time."""
        if not self._items:
            if self._loop is None:
                # Asked for once: each time asks the system for the process's id too.
                self._loop = asyncio.get_running_loop()
            self._taker = self._loop.create_future()
            await self._taker
        items, self._items = self._items, []
        return items
