"""What a gateway does for the store beside serving requests.

It says which responses it is making, ends those that are to be cancelled, ends as failed those
whose gateway has fallen silent, and forgets what is old.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

from server.generation.runs import Runs
from server.outbound.interrupted import end_interrupted
from server.store.responses.base import CANCELS, Store, StoredResponse, StoreUnavailable

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 4.0
LATE_SECONDS = 2 * HEARTBEAT_SECONDS
"""A heartbeat that comes later after the one before could not reach the store in time."""
SILENT_SECONDS = 15.0
"""A gateway that has not been heard of for so long runs nothing any more."""
LOOK_SECONDS = 2.0
"""Between two looks at which gateways have ended; such a look does not disturb the store."""
SWEEP_SECONDS = 3600.0


class Contact:
    """Since when every heartbeat has reached the store.

    now: seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since = self._last = -math.inf

    @property
    def seconds(self) -> float:
        """How long it has lasted; 0 where there is none now."""
        return self._now() - self._since if self._is_held else 0.0

    def made(self) -> None:
        """A heartbeat has reached the store."""
        if not self._is_held:
            self._since = self._now()
        self._last = self._now()

    def lost(self) -> None:
        """A heartbeat has not."""
        self._last = -math.inf

    @property
    def _is_held(self) -> bool:
        return self._now() - self._last <= LATE_SECONDS


class Maintenance:
    """The store's care, as tasks of this process.

    ttl: seconds that a response is kept. now: seconds of a clock that is never set.
    """

    def __init__(
        self,
        store: Store,
        runs: Runs,
        ttl: float,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._runs = runs
        self._ttl = ttl
        self._contact = Contact(now)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Take care as long as the block lasts."""
        chores = (
            _every(HEARTBEAT_SECONDS, self.heartbeat),
            self._follow_cancels(),
            _every(LOOK_SECONDS, self.end_left_behind),
            _every(SILENT_SECONDS / 3, self.end_silent),
            _every(SWEEP_SECONDS, self.sweep),
        )
        tasks = [asyncio.create_task(chore) for chore in chores]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def heartbeat(self) -> None:
        """Say what runs here; cancel what is to be cancelled."""
        try:
            cancelled = await self._store.heartbeat(self._runs.journaled_ids)
        except BaseException:
            self._contact.lost()
            raise
        self._contact.made()
        self._cancel(cancelled)

    async def cancel_marked(self) -> None:
        """Cancel what is to be cancelled, without a write."""
        self._cancel(await self._store.cancelled())

    async def end_left_behind(self) -> None:
        """End the runs of gateways that have ended as failed: at once those of a predecessor."""
        for stored in await self._store.adopt_from_ended():
            await self._fail(stored)

    async def end_silent(self) -> None:
        """End the runs of silent gateways as failed.

        Where nobody could reach the store, all have been silent: first they get the time to speak.
        """
        if self._contact.seconds < SILENT_SECONDS:
            return
        for stored in await self._store.take_over_orphans(SILENT_SECONDS, self._runs.journaled_ids):
            await self._fail(stored)

    async def sweep(self) -> None:
        """Forget what is old."""
        if swept := await self._store.sweep(self._ttl):
            logger.info("forgot %d old responses", swept)

    async def _follow_cancels(self) -> None:
        """Hear of them between the beats."""
        with self._store.listen(CANCELS) as changes:
            while True:
                await self._runs.wait_for_journaled()
                await changes.wait()
                await _tried(self.cancel_marked)

    def _cancel(self, marked: Collection[str]) -> None:
        for response_id in marked:
            if run := self._runs.find(response_id):
                run.cancel()

    async def _fail(self, stored: StoredResponse) -> None:
        ledger = await self._store.ledger(stored.owner, stored.id)
        events = end_interrupted(stored.response, () if ledger is None else ledger.events)
        await self._store.end(stored.ended(events[-1]["response"], {}), events)
        logger.warning("response %s was left behind by its server: failed", stored.id)


async def _every(seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
    while True:
        await _tried(chore)
        await asyncio.sleep(seconds)


async def _tried(chore: Callable[[], Awaitable[None]]) -> None:
    try:
        await chore()
    except StoreUnavailable as error:
        # It is logged where it happened, and the chore comes round again.
        logger.debug("maintenance is put off: %s", error)
    except Exception:
        # A chore that broke once must come round again: others wait for this gateway's word.
        logger.exception("maintenance failed")
