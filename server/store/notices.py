"""PostgreSQL's notices: what one gateway changed rings the bells of the others."""

import asyncio
import logging
from typing import Any

import asyncpg
from sqlalchemy.engine import URL

from server.store.bells import Bells

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_CONNECT_SECONDS = 5.0


class Notices:
    """A connection of its own that listens; a lost one is made anew."""

    CHANNEL = "gpt_oss_server"

    def __init__(self, url: URL, bells: Bells) -> None:
        self._url = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._bells = bells
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen from soon on until `stop`."""
        self._task = asyncio.create_task(self._keep_listening())

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep_listening(self) -> None:
        while True:
            try:
                await self._listen()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                logger.warning("cannot listen to the store's notices: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        connection = await asyncpg.connect(self._url, timeout=_CONNECT_SECONDS)
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(self.CHANNEL, self._heard)
            # What was said while nobody listened was missed.
            self._bells.ring_all()
            await lost.wait()
        finally:
            connection.terminate()

    def _heard(self, _: Any, __: int, ___: str, topic: object) -> None:
        self._bells.ring(str(topic))
