"""Reads stored responses while they are made: their current state, and their events."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any

from server.errors import NotFound
from server.generation.runs import Runs, WireEvent
from server.outbound.responses.failure import error_event
from server.outbound.responses.fold import TERMINAL_EVENTS, fold
from server.outbound.responses.interrupted import is_interrupted
from server.store.errors import StoreUnavailable
from server.store.responses.base import UNFINISHED, Store

BATCH_EVENTS = 1000
"""The number of events that are requested from the store at once."""

_FIRST_EVENTS = 3
"""`response.created`, `response.queued` and `response.in_progress`."""


async def current_response(store: Store, owner: str, response_id: str) -> dict[str, Any] | None:
    """Return the owner's response, folded from its stored events while it is made.

    None if there is none. Raises StoreUnavailable.
    """
    response = await store.show(owner, response_id)
    if response is None or response["status"] not in UNFINISHED:
        return response
    ledger = await store.ledger(owner, response_id)
    return fold(ledger.events) if ledger and ledger.events else response


async def current_status(store: Store, owner: str, response: dict[str, Any]) -> str:
    """Return the status of a stored response, from its first events while it is made.

    It may have ended since it was read. Raises StoreUnavailable.
    """
    status: str = response["status"]
    if status not in UNFINISHED:
        return status
    ledger = await store.ledger(owner, response["id"], most=_FIRST_EVENTS)
    return str(fold(ledger.events)["status"]) if ledger and ledger.events else status


async def wait_until_ended(store: Store, runs: Runs, owner: str, response_id: str) -> None:
    """Return when the response has ended or is deleted. Raises StoreUnavailable."""
    if run := runs.find(response_id):
        await run.wait()
        return
    with suppress(NotFound):
        async with aclosing(follow_stored(store, owner, response_id)) as batches:
            async for _ in batches:
                continue


async def follow_stored(
    store: Store, owner: str, response_id: str, start: int = 0
) -> AsyncGenerator[Sequence[WireEvent], None]:
    """Yield the events of the owner's response from position `start` on, as they are stored.

    Any gateway may make the response. A batch has about BATCH_EVENTS events at most, which bounds
    the memory of a slow reader. Raises StoreUnavailable, and NotFound if the response is deleted.
    """
    with store.listen(response_id) as changes:
        while True:
            ledger = await store.ledger(owner, response_id, start, most=BATCH_EVENTS)
            if ledger is None:
                raise NotFound("The response was deleted.", param="response_id")
            if ledger.events:
                start += len(ledger.events)
                yield ledger.events
            if ledger.ended:
                return
            if not ledger.more:
                await changes.wait()


async def stream_stored(
    store: Store, owner: str, response_id: str, start: int = 0
) -> AsyncGenerator[Sequence[WireEvent], None]:
    """Yield the events of `follow_stored` for a stream whose status is already sent.

    An unavailable store becomes an `error` event, and so does the deletion of the response. No
    `response.failed` follows it. Where the response itself continues, the client can follow it
    again: the number of the `error` event is that of the event before, after which it resumes. It
    has none where there is no such event.
    """
    position = start
    try:
        async with aclosing(follow_stored(store, owner, response_id, start)) as batches:
            async for batch in batches:
                position += len(batch)
                yield batch
        if position == start and (end := await _end_beyond(store, owner, response_id, start)):
            yield end
    except (StoreUnavailable, NotFound) as error:
        number = {"sequence_number": position - 1} if position else {}
        yield [{**error_event(error), **number}]


async def _end_beyond(
    store: Store, owner: str, response_id: str, start: int
) -> Sequence[WireEvent]:
    """Return the terminal events for a client that received events which are not stored.

    A crash loses events that were sent but not stored. The events that end the response then have
    the numbers of the lost ones; here they are numbered from `start` on.
    """
    ledger = await store.ledger(owner, response_id)
    if ledger is None or not ledger.events:
        return []
    if len(ledger.events) == start and not is_interrupted(ledger.events[-1]):
        return []
    end = (event for event in ledger.events[-2:] if event["type"] in TERMINAL_EVENTS | {"error"})
    return [{**event, "sequence_number": number} for number, event in enumerate(end, start)]
