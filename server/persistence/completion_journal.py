"""Writes a chat completion to the store when it has ended, before anyone is told of its end."""

from collections.abc import Callable, Sequence
from typing import Any

from server.generation.runs import Show, WireEvent
from server.outbound.chat_fold import fold
from server.persistence.retrying import NO_RETRY, Retries, RetryPolicy
from server.store.chat_completions.base import ChatCompletionStore, StoredChatCompletion

Complete = Callable[[dict[str, Any]], StoredChatCompletion]


class ChatCompletionJournal:
    """Keeps one completion, if it ends well; what was broken off is not kept.

    complete: what is kept, for the completion that the chunks tell of. retry: what becomes of the
    write while the store is unavailable.
    """

    def __init__(
        self, store: ChatCompletionStore, complete: Complete, *, retry: RetryPolicy = NO_RETRY
    ) -> None:
        self._retries = Retries(retry)
        self._store = store
        self._complete = complete
        self._chunks: list[WireEvent] = []

    async def begin(self) -> None:
        """Nothing: a completion is kept when it has ended."""

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Show the chunks, the last ones when all are kept. Raises StoreUnavailable."""
        self._chunks += events
        if any(event.get("choices") == [] for event in events):
            stored = self._complete(fold(self._chunks))
            await self._retries.until_written(lambda: self._store.put(stored))
        show(events)
