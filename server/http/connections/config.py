"""uvicorn's configuration, with the limits and the protocols of this package."""

import sys
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application

from server.http.bodies.budget import Budget
from server.http.connections.limits import Connections, Limits


class Config(uvicorn.Config):
    """uvicorn's configuration for `app`, with `limits`.

    refused: called with the code of each error that is sent without the application. bodies: the
    budget that the unfinished messages of WebSockets are charged to.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        refused: Callable[[str | None], None] = lambda _: None,
        bodies: Budget | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            cast(ASGI3Application, app),
            http="server.http.connections.protocol:Protocol",
            ws="server.http.connections.websocket:Socket",
            # A client that reads nothing sends no pong. `WriteDeadline` limits for how long it may.
            ws_ping_timeout=None,
            # A message of a few kilobytes could become one of the largest size, at once and on the
            # event loop.
            ws_per_message_deflate=False,
            **options,
        )
        self.limits = limits
        self.refused = refused
        self.bodies = bodies or Budget(sys.maxsize)
        self.open_connections = Connections(limits)
