"""`gpt-oss-server serve`: a process that takes its port, loads, serves, drains and stops."""

import asyncio
import logging
import socket
import sys

import uvicorn
from sse_starlette.sse import AppStatus

from adapters.base import Backend
from adapters.errors import BackendError
from server.app import create_app
from server.backends import open_backend
from server.settings import Settings


class StartUpFailed(Exception):
    """The server cannot run; the message is one line for the person who started it."""


def serve(settings: Settings) -> None:
    """Serve until interrupted. Raises StartUpFailed.

    The port is taken before the model loads, so that a port in use shows at once, and listened on
    after it. An interrupt lets running answers finish for `drain_seconds`; a second one ends them.
    """
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    listener = _bind(settings.host, settings.port)
    with listener, asyncio.Runner() as runner:
        backend = _open(settings)
        try:
            runner.run(backend.start())
            runner.run(_listen(settings, backend, listener))
        except BackendError as error:
            raise StartUpFailed(str(error)) from error
        except KeyboardInterrupt:
            return
        finally:
            runner.run(backend.stop())


async def _listen(settings: Settings, backend: Backend, listener: socket.socket) -> None:
    AppStatus.disable_automatic_graceful_drain()
    config = uvicorn.Config(
        create_app(settings, backend),
        log_config=None,
        timeout_graceful_shutdown=round(settings.drain_seconds),
        server_header=False,
    )
    host, port = listener.getsockname()[:2]
    print(f"Serving {', '.join(settings.model_names)} on http://{host}:{port}", flush=True)
    await uvicorn.Server(config).serve(sockets=[listener])


def _open(settings: Settings) -> Backend:
    try:
        return open_backend(settings, Progress())
    except BackendError as error:
        raise StartUpFailed(str(error)) from error


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise StartUpFailed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


class Progress:
    """Shows how far loading is: a line on standard error a stage, rewritten on a terminal."""

    def __init__(self) -> None:
        self._shown: tuple[str, int] | None = None

    def __call__(self, stage: str, fraction: float) -> None:
        """`fraction` of the stage is done, in [0, 1]."""
        steps = 100 if sys.stderr.isatty() else 4
        shown = (stage, int(fraction * steps))
        if shown == self._shown:
            return
        self._shown = shown
        end = "\n" if fraction >= 1 or not sys.stderr.isatty() else ""
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{start}{stage}: {fraction:.0%}", end=end, file=sys.stderr, flush=True)
