"""The periodic tasks of a gateway on its store.

They send heartbeats for the responses that this gateway makes, cancel responses on request, end
responses of stopped gateways as failed, and delete old responses.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from server import threads
from server.generation.runs import Runs
from server.outbound.responses.interrupted import end_interrupted
from server.store.errors import StoreUnavailable
from server.store.responses.base import CANCELS, Store

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 4.0
LATE_SECONDS = 2 * HEARTBEAT_SECONDS
"""A longer interval between two heartbeats counts as an outage."""
SILENT_SECONDS = 15.0
"""A gateway without a heartbeat for this long is treated as stopped."""
LOOK_SECONDS = 5.0
"""The interval of checks for such gateways, in which those that live send a heartbeat."""
CHECK_SECONDS = 2.0
"""The interval of checks for ended gateways. A check only reads."""
SWEEP_SECONDS = 3600.0


class Contact:
    """How long heartbeats have reached the store without an outage.

    now: seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._start = self._last = -math.inf

    @property
    def seconds(self) -> float:
        """Seconds since the last outage ended; 0 during one."""
        return self._now() - self._start if self._is_current else 0.0

    def succeeded(self) -> None:
        """Record a heartbeat that reached the store."""
        if not self._is_current:
            self._start = self._now()
        self._last = self._now()

    def failed(self) -> None:
        """Record a heartbeat that did not reach the store."""
        self._last = -math.inf

    @property
    def _is_current(self) -> bool:
        return self._now() - self._last <= LATE_SECONDS


class Maintenance:
    """Runs the periodic tasks of one gateway.

    ttl: seconds after which a response is deleted. sweeps: functions that delete other objects
    that are older than the given seconds, and return their number. now: seconds of a monotonic
    clock.
    """

    def __init__(
        self,
        store: Store,
        runs: Runs,
        ttl: float,
        sweeps: Sequence[Callable[[float], Awaitable[int]]] = (),
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._runs = runs
        self._ttl = ttl
        self._sweeps = (store.sweep, *sweeps)
        self._contact = Contact(now)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the tasks for the duration of the block."""
        periodic = (
            _every(HEARTBEAT_SECONDS, self.heartbeat),
            self._follow_cancels(),
            _every(CHECK_SECONDS, self.end_runs_of_ended),
            _every(LOOK_SECONDS, self.end_runs_of_silent),
            _every(SWEEP_SECONDS, self.sweep),
        )
        tasks = [asyncio.create_task(coroutine) for coroutine in periodic]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def heartbeat(self) -> None:
        """Report this gateway's runs as alive; cancel those that are marked."""
        try:
            cancelled = await self._store.heartbeat(self._runs.journaled_ids)
        except BaseException:
            self._contact.failed()
            raise
        self._contact.succeeded()
        self._cancel(cancelled)

    async def cancel_marked(self) -> None:
        """Cancel this gateway's marked runs without a write to the store."""
        self._cancel(await self._store.cancelled())

    async def end_runs_of_ended(self) -> None:
        """End runs as failed whose gateway has released its lock.

        After a crash and restart, the runs of the earlier process end here within seconds.
        """
        await self._fail(await self._store.take_over_from_ended())

    async def end_runs_of_silent(self) -> None:
        """End runs as failed whose gateway sends no heartbeats.

        During an outage of the store no gateway could send any. So nothing is taken over before
        this gateway has been in contact for SILENT_SECONDS, in which the others reconnect too.
        """
        if self._contact.seconds < SILENT_SECONDS:
            return
        own = self._runs.journaled_ids
        await self._fail(await self._store.take_over_orphans(SILENT_SECONDS, own))

    async def sweep(self) -> None:
        """Delete what is older than the ttl."""
        for sweep in self._sweeps:
            await _run_logged(partial(self._sweep, sweep))

    async def _sweep(self, sweep: Callable[[float], Awaitable[int]]) -> None:
        if deleted := await sweep(self._ttl):
            logger.info("deleted %d expired objects", deleted)

    async def _follow_cancels(self) -> None:
        """Cancel marked runs between heartbeats."""
        with self._store.listen(CANCELS) as changes:
            while True:
                await self._runs.wait_for_journaled()
                await changes.wait()
                await _run_logged(self.cancel_marked)

    def _cancel(self, marked: Collection[str]) -> None:
        for response_id in marked:
            if run := self._runs.find(response_id):
                run.cancel()

    async def _fail(self, taken_over: Collection[str]) -> None:
        """End responses as failed. One that cannot be ended now is taken over again later."""
        for response_id in taken_over:
            await _run_logged(partial(self._fail_one, response_id))

    async def _fail_one(self, response_id: str) -> None:
        stored = await self._store.taken_over(response_id)
        ledger = await self._store.ledger(stored.owner, stored.id)
        known = () if ledger is None else ledger.events
        end = partial(end_interrupted, stored.response, known)
        events = await threads.run(end, threads.counted(len(known), threads.MOST_EVENTS))
        await self._store.end(stored.ended(events[-1]["response"], {}), events)
        logger.warning("response %s was interrupted: its server stopped", stored.id)


async def _every(seconds: float, task: Callable[[], Awaitable[None]]) -> None:
    while True:
        await _run_logged(task)
        await asyncio.sleep(seconds)


async def _run_logged(task: Callable[[], Awaitable[None]]) -> None:
    try:
        await task()
    except StoreUnavailable as error:
        # The database logs the outage itself; the task runs again.
        logger.debug("maintenance is postponed: %s", error)
    except Exception:
        # The task must run again: without heartbeats, other gateways take over this one's runs.
        logger.exception("maintenance failed")
