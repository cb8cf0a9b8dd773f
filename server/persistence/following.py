"""Stored responses as they stand: what can be shown of them now, and their events as they come."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from server.generation.runs import Runs, WireEvent
from server.outbound.failure import error_event
from server.outbound.fold import TERMINAL_EVENTS, fold
from server.store.responses.base import UNFINISHED, Store, StoreUnavailable

EVENTS_AT_ONCE = 1000
"""Events that are read from the store at a time."""


async def shown(store: Store, owner: str, response_id: str) -> dict[str, Any] | None:
    """The owner's response; one that is being made, as far as its events are kept."""
    response = await store.show(owner, response_id)
    if response is None or response["status"] not in UNFINISHED:
        return response
    ledger = await store.ledger(owner, response_id)
    return fold(ledger.events) if ledger and ledger.events else response


async def finished(store: Store, runs: Runs, owner: str, response_id: str) -> None:
    """Return when the response has ended, or is no more."""
    if run := runs.find(response_id):
        await run.wait()
        return
    async with aclosing(follow_stored(store, owner, response_id)) as batches:
        async for _ in batches:
            continue


async def follow_stored(
    store: Store, owner: str, response_id: str, start: int = 0
) -> AsyncGenerator[Sequence[WireEvent], None]:
    """The events of the owner's response from position `start` on, whichever gateway makes it.

    A batch has about EVENTS_AT_ONCE events at most: a reader that takes its time holds no more.
    """
    with store.listen(response_id) as changes:
        while ledger := await store.ledger(owner, response_id, start, most=EVENTS_AT_ONCE):
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
    """The same for a client whose stream has begun: it is always told how that ends.

    A store that is lost is an `error`. No `response.failed` follows: the response itself goes on,
    and can be followed again.
    """
    position = start
    try:
        async with aclosing(follow_stored(store, owner, response_id, start)) as batches:
            async for batch in batches:
                position += len(batch)
                yield batch
        if position == start and (missed := await _missed(store, owner, response_id, start)):
            yield missed
    except StoreUnavailable as error:
        yield [{**error_event(error), "sequence_number": position}]


async def _missed(store: Store, owner: str, response_id: str, start: int) -> Sequence[WireEvent]:
    """The end of a response, for who has seen more of it than there is, or another end.

    A crash may take events that were sent; what ended the response then has their numbers.
    """
    ledger = await store.ledger(owner, response_id)
    if ledger is None or not ledger.events:
        return []
    failed = ledger.events[-1]["type"] == "response.failed"
    if len(ledger.events) == start and not failed:
        return []
    end = (event for event in ledger.events[-2:] if event["type"] in TERMINAL_EVENTS | {"error"})
    return [{**event, "sequence_number": number} for number, event in enumerate(end, start)]
