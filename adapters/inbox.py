"""What an engine hands to a generator, on its way."""

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items of one request, in order. Belongs to the event loop."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._taker: asyncio.Future[None] | None = None

    def put(self, item: Item) -> None:
        self._items.append(item)
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    async def take(self) -> list[Item]:
        """All that has piled up, at least one item. One taker waits at a time."""
        if not self._items:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        items, self._items = self._items, []
        return items
