"""Stores a chat completion when it has ended, before its last chunk is shown."""

from collections.abc import Callable, Sequence
from typing import Any

from server import threads
from server.generation.runs import Show, WireEvent
from server.outbound.chat.fold import fold
from server.persistence.retrying import NO_RETRY, Retries, RetryPolicy
from server.store.chat_completions.base import ChatCompletionStore, StoredChatCompletion

ToStored = Callable[[dict[str, Any]], StoredChatCompletion]


class ChatCompletionJournal:
    """Stores one completion if it ends normally. An interrupted completion is not stored.

    to_stored: called with the completion that the chunks add up to; returns what is stored.
    retry: how long a failed write is repeated.
    """

    def __init__(
        self, store: ChatCompletionStore, to_stored: ToStored, *, retry: RetryPolicy = NO_RETRY
    ) -> None:
        self._retries = Retries(retry)
        self._store = store
        self._to_stored = to_stored
        self._chunks: list[WireEvent] = []

    async def begin(self) -> None:
        """Does nothing: a completion is stored when it has ended."""

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Show chunks; the last ones once the completion is stored. Raises StoreUnavailable."""
        self._chunks += events
        if any(event.get("choices") == [] for event in events):
            size = threads.counted(len(self._chunks), threads.MOST_EVENTS)
            stored = self._to_stored(await threads.run(lambda: fold(self._chunks), size))
            await self._retries.until_written(lambda: self._store.put(stored))
        show(events)
