"""What an engine hands to a generator, on its way."""

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items of one request, in order. Belongs to the event loop."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._arrived = asyncio.Event()

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._arrived.set()

    async def take(self) -> list[Item]:
        """All that has piled up, at least one item."""
        await self._arrived.wait()
        self._arrived.clear()
        items, self._items = self._items, []
        return items
