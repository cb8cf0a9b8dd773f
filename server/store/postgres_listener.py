"""A gateway's dedicated connection to PostgreSQL, for notifications and a lock.

The lock shows other gateways that this one is alive. It is a session's advisory lock: PostgreSQL
releases it when the connection ends, which is immediate if the process ends. This connection may be
lost while the gateway goes on, so a gateway has ended only if its heartbeats are missing, too.
"""

import asyncio
import logging
import time

import asyncpg
from sqlalchemy.engine import URL

from server.store.change_signal import ChangeSignals
from server.store.postgres_url import dsn_of
from server.store.sqlalchemy_engine import POSTGRES_ERRORS

logger = logging.getLogger(__name__)

GATEWAY = "gw"
"""The prefix of the ids of gateways that hold a lock. Earlier versions hold none."""

_RETRY_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_STATEMENT_SECONDS = 5.0

LOCKLESS_SECONDS = 6.0
"""A gateway without a lock has ended if it sent no heartbeat for this long: longer than the
interval of heartbeats, by what a late one may take."""

_SETTLE_SECONDS = 10.0
"""No gateway is reported as ended for this long after an outage: the others reconnect, too."""

_START_SECONDS = 15.0
"""The same after a start of PostgreSQL, of which a new gateway has seen no outage."""

# Shared, because a dead session may hold it until PostgreSQL notices that it is dead.
_LOCK = "SELECT pg_advisory_lock_shared(hashtextextended($1, 0))"
_ENDED = """
SELECT gateway FROM runs
WHERE gateway <> $1 AND starts_with(gateway, $2)
AND pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => $3)
AND NOT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = hashtextextended(gateway, 0)
)
GROUP BY gateway
HAVING max(beat_at) < extract(epoch from clock_timestamp()) - $4::float8
"""


class PostgresListener:
    """Listens to notifications and holds the lock; connects again where that is lost or silent.

    gateway: this gateway's id.
    """

    CHANNEL = "gpt_oss_server"

    def __init__(self, url: URL, signals: ChangeSignals, gateway: str) -> None:
        self._dsn = dsn_of(url)
        self._signals = signals
        self._gateway = gateway
        self._task: asyncio.Task[None] | None = None
        self._attempted = asyncio.Event()
        self._connection: asyncpg.Connection | None = None
        self._lost = asyncio.Event()
        self._failure: str | None = None
        self._settled_at = 0.0

    async def start(self) -> None:
        """Listen until `stop`. If PostgreSQL is unavailable, keep trying to connect."""
        self._task = asyncio.create_task(self._keep_listening())
        await self._attempted.wait()

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._replace(None)

    async def ended(self) -> frozenset[str]:
        """Return the gateways that have runs and have ended; none while this is unknown."""
        if self._connection is None or time.monotonic() < self._settled_at:
            return frozenset()
        arguments = (self._gateway, f"{GATEWAY}_", _START_SECONDS, LOCKLESS_SECONDS)
        try:
            found = await self._connection.fetch(_ENDED, *arguments, timeout=_STATEMENT_SECONDS)
        except POSTGRES_ERRORS as error:
            logger.debug("cannot read the locks of gateways: %s", _words_of(error))
            if isinstance(error, TimeoutError):
                # The connection may be silent for ever, and then hears no notification either.
                self._log("the connection is silent")
                self._lost.set()
            return frozenset()
        return frozenset(name for (name,) in found)

    def forget(self, gateway: str) -> None:
        """Does nothing: only gateways with runs are reported."""

    async def _keep_listening(self) -> None:
        while True:
            try:
                await self._listen()
            except POSTGRES_ERRORS as error:
                self._log(_words_of(error))
            self._settled_at = time.monotonic() + _SETTLE_SECONDS
            self._attempted.set()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        connection = await asyncpg.connect(self._dsn, timeout=_CONNECT_SECONDS)
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.execute(_LOCK, self._gateway, timeout=_STATEMENT_SECONDS)
            async with asyncio.timeout(_STATEMENT_SECONDS):
                await connection.add_listener(self.CHANNEL, self._notify)
        except BaseException:
            connection.terminate()
            raise
        # Only now, so that a connection that was slow, not silent, keeps the lock until then.
        self._replace(connection)
        self._lost = lost
        # Notifications were lost while there was no connection.
        self._signals.notify_all()
        if self._attempted.is_set():
            self._settled_at = time.monotonic() + _SETTLE_SECONDS
        self._failure = None
        self._attempted.set()
        await lost.wait()

    def _replace(self, connection: asyncpg.Connection | None) -> None:
        """Use another connection, or none, and close the one before."""
        before, self._connection = self._connection, connection
        if before is not None:
            before.terminate()

    def _log(self, failure: str) -> None:
        """Log a failure, but not again at each attempt of an outage."""
        level = logging.DEBUG if failure == self._failure else logging.WARNING
        logger.log(level, "cannot listen to the store's notifications: %s", failure)
        self._failure = failure

    def _notify(self, _: object, __: int, ___: str, topic: object) -> None:
        self._signals.notify(str(topic))


def _words_of(error: Exception) -> str:
    return str(error) or type(error).__name__
