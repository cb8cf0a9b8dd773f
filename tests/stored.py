"""Stored responses, which a test needs but does not make."""

from collections.abc import Sequence

from server.store.responses.base import Event, Store, StoredResponse


async def put(store: Store, stored: StoredResponse, events: Sequence[Event] = ()) -> None:
    """Store a response that has ended, as a run does."""
    await store.begin(stored)
    await store.end(stored, events)
