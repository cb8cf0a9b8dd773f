"""Serves the small applications: the playground, and the service of Python sessions."""

import socket
from collections.abc import Callable
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application

from server.commands.listening import url

CLOSE_SECONDS = 1
"""How long open answers may go on after Ctrl-C."""


async def serve_site(
    app: ASGIApp, listener: socket.socket, announce: Callable[[str], None]
) -> None:
    """Serve until interrupted. announce: called with the address once connections are accepted."""
    config = uvicorn.Config(
        cast(ASGI3Application, app),
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    await _Server(config, announce).serve([listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and announce where: the port may have been chosen by the system."""
        await super().startup(sockets)
        for listener in sockets or ():
            self._announce(url(listener))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, and wait for the end of the application, also after a second Ctrl-C.

        uvicorn does not wait then: the application would be cancelled, and log a traceback.
        """
        await super().shutdown(sockets)
        await self.lifespan.shutdown()
