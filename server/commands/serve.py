"""The command `serve`: binds the port, loads the model, serves, drains and stops."""

import asyncio
import logging
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus
from uvloop import new_event_loop

from adapters.base import Backend
from adapters.errors import BackendError, EngineDied
from harmony.mask_tokenizer import mask_tokenizer
from server.app import create_app
from server.commands.backends import open_backend
from server.commands.failure import CommandFailed
from server.commands.file_limit import raise_file_limit
from server.commands.garbage import (
    exclude_from_collections,
    free_unused,
    reduce_garbage_collections,
)
from server.commands.listening import announce, bind, listen, reachable_by_others, url
from server.commands.log_lines import log_no_details, log_to_stderr
from server.commands.option_help import unknown_variables
from server.commands.stop_signals import StopSignals, ignore_hang_up
from server.commands.stores import open_store
from server.context import Context
from server.http.connections.config import Config
from server.inbound.grammar_sandbox import shared
from server.settings import Settings
from server.store.errors import StoreDamaged, StoreTooNew, StoreUnavailable
from server.store.files.folder import FileFolder
from server.store.responses.base import Store
from server.telemetry.definitions import CONNECTIONS
from server.tools.browser.calls import NAME as BROWSER
from server.tools.python.opening import open_sandbox
from server.tools.python.process import ProcessSandbox
from server.tools.python.sandbox import PythonSandbox
from server.tools.python.tool import NAME as PYTHON

logger = logging.getLogger(__name__)

OUR_PACKAGES = ("adapters", "demo", "harmony", "server")
THREADS = 128
"""More than cores, because most of their work waits: for disks, names of hosts and processes."""

GRACE_SECONDS = 1.0
"""How long clients may read the end of their answers after these were cancelled."""

DEAD_SECONDS = 30.0
"""How long the process still answers, with errors, after its engine has died."""

OTHER_FILES = 1024
"""Files that a process may need in addition to connections: for engines, the store, helpers."""

WATCH_SECONDS = 1.0
"""The time between two checks of the engine."""

TICK_SECONDS = 1.0
"""The time between two updates of the `date` header, which has whole seconds."""


def serve(settings: Settings) -> None:
    """Serve until interrupted.

    Raises CommandFailed where the server cannot start, or cannot continue, and KeyboardInterrupt
    for Ctrl-C while loading.

    If an engine in this process dies, the process ends after `DEAD_SECONDS`, so that a service
    manager can restart it.

    The port is bound before the model loads, so that a port in use is reported at once; the server
    listens on it after that. An interrupt (Ctrl-C, SIGTERM or SIGHUP) lets running answers finish
    for `drain_seconds`; a second one ends them.
    """
    _log_to_stderr(settings.log_level.upper())
    _warn_of_unknown_variables()
    stop = StopSignals()
    stop.install()
    try:
        _serve(settings, stop)
    except KeyboardInterrupt:
        if not stop.came:
            raise


def _serve(settings: Settings, stop: StopSignals) -> None:
    with (
        bind(settings.host, settings.port) as listener,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        try:
            _require_key(settings, listener)
            connections = settings.max_connections
            raise_file_limit(connections + OTHER_FILES, f"--max-connections {connections}")
            backend = open_backend(settings, Progress())
            store, sandbox = _open_store(settings), _open_sandbox(settings)
            _check_files(settings)
            exclude_from_collections()  # what was imported, before the model loads
            with ExitStack() as opened:
                opened.callback(lambda: runner.run(store.stop()))
                runner.run(store.start())
                opened.callback(lambda: runner.run(backend.stop()))
                opened.callback(lambda: runner.run(sandbox.stop()))
                stop.check()
                runner.run(_start(settings, backend, sandbox))
                app = create_app(settings, backend, store, sandbox=sandbox)
                _listen(runner, app, listener, stop)
        except BackendError as error:
            raise CommandFailed(str(error)) from error
        except StoreDamaged as error:
            raise CommandFailed(f"cannot open the store: {error.advice}") from error
        except StoreTooNew as error:
            raise CommandFailed(error.message) from error
        except StoreUnavailable as error:
            cause = error.__cause__
            reason = str(cause) or type(cause).__name__  # a timeout has no text
            raise CommandFailed(f"cannot open the store: {reason}") from error


async def _start(settings: Settings, backend: Backend, sandbox: PythonSandbox) -> None:
    """Start the backend, then build what masks need.

    A sandbox of this machine starts its first process while a model loads.
    """
    names = settings.hosted_tool_names
    if isinstance(sandbox, ProcessSandbox) and (names is None or PYTHON in names):
        sandbox.start_soon()  # the tool waits for it
    await backend.start()
    if settings.serves_playground or "grammar" in backend.info.features:
        mask_tokenizer()


def _open_sandbox(settings: Settings) -> PythonSandbox:
    return open_sandbox(
        settings.python_sandbox,
        settings.python_sandbox_key,
        settings.python_folder,
        settings.python_sessions,
    )


def _open_store(settings: Settings) -> Store:
    try:
        return open_store(settings)
    except OSError as error:
        raise CommandFailed(f"cannot open the store: {error}") from error


def _check_files(settings: Settings) -> None:
    """Raises CommandFailed if --files names a folder that cannot be used.

    The default folder may be of no use, as in a container whose files cannot be written: many
    servers get no uploads.
    """
    if settings.files_folder is None:
        return
    try:
        FileFolder(settings.files_folder).check()
    except OSError as error:
        problem = f"cannot store files in {settings.files_folder}: {error.strerror}"
        if settings.files is not None:
            raise CommandFailed(f"{problem}; name another folder with --files") from error
        logger.warning("%s; uploads are refused", problem)


def _listen(
    runner: asyncio.Runner, app: FastAPI, listener: socket.socket, stop: StopSignals
) -> None:
    context: Context = app.state.context
    settings = context.settings
    config = Config(
        app,
        settings.limits,
        context.traffic.observer.refused,
        context.body_budget,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_max_size=settings.max_body_bytes,
        ws_max_queue=1,
    )
    context.metrics.show(CONNECTIONS, lambda: {(): config.open_connections.open})
    # sse-starlette would end streams at the first signal; this server drains them.
    AppStatus.disable_automatic_graceful_drain()
    server = Server(config, context, runner.get_loop())
    shared().start()
    runner.get_loop().set_default_executor(ThreadPoolExecutor(THREADS, "server"))
    listen(listener)
    reduce_garbage_collections()
    free_unused()
    stop.check()
    try:
        runner.run(server.serve(sockets=[listener]))
    except KeyboardInterrupt:
        # After its shutdown, uvicorn raises the signal again that caused it.
        return
    if server.death is not None:
        raise server.death


class Server(uvicorn.Server):
    """uvicorn's server: prints its address, drains answers, and ends with the engine."""

    def __init__(
        self, config: uvicorn.Config, context: Context, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(config)
        self._context = context
        self._gateway = context.gateway
        self._loop = loop
        self._exiting = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self.death: EngineDied | None = None
        """The error of the engine, if that ended the server."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Print the address once connections are accepted, and start to watch the engine."""
        await super().startup(sockets)
        for listener in sockets or ():
            announce(f"Serving {', '.join(self._context.models)} on {url(listener)}")
        if not self._context.settings.api_keys:
            logger.info("no API key is required")
        if BROWSER in self._context.toolbox.problems and not self._context.settings.search:
            logger.info("web_search searches this documentation; --search adds a provider")
        self._watch = self._loop.create_task(self._end_with_the_engine())

    async def _end_with_the_engine(self) -> None:
        error = await self._engine_dies()
        logger.error("%s; the server ends in %.0f s", error, DEAD_SECONDS)
        await asyncio.sleep(DEAD_SECONDS)
        self.death = error
        self.should_exit = True
        self._exiting.set()

    async def _engine_dies(self) -> EngineDied:
        """Return when the engine has died. Other errors may be temporary."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                await self._gateway.backend.check()
            except EngineDied as error:
                return error
            except BackendError:
                continue

    async def main_loop(self) -> None:
        """Return when the server must exit.

        It waits for an event: uvicorn's own loop wakes up ten times a second, even when idle.
        """
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exiting.wait(), TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers finish for the time of the drain, then end them."""
        if admitted := self._gateway.admission.admitted:
            logger.info("answers to finish first: %d; Ctrl-C ends them", admitted)
        self._context.draining.set()
        drained = self._loop.call_later(self._context.settings.drain_seconds, self._end_answers)
        try:
            await super().shutdown(sockets)
        finally:
            drained.cancel()
            if self._watch is not None:
                self._watch.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal starts the drain; a second one ends it."""
        if self.should_exit:
            self._loop.call_soon_threadsafe(self._end_answers)
        else:
            super().handle_exit(sig, frame)
            ignore_hang_up()
            self._loop.call_soon_threadsafe(self._exiting.set)

    def _end_answers(self) -> None:
        self._gateway.runs.cancel()
        self._loop.call_later(GRACE_SECONDS, self._close_connections)

    def _close_connections(self) -> None:
        for connection in self.server_state.connections:
            connection.transport.abort()


def _log_to_stderr(level: str) -> None:
    # Other packages' debug lines may hold what clients and the model say; ours never do.
    log_to_stderr("INFO" if level == "DEBUG" else level)
    for package in OUR_PACKAGES:
        logging.getLogger(package).setLevel(level)
    # transformers has the second name; torch logs statistics of its caches at the end.
    log_no_details("alembic", "ContinuousBatchingLogger", "torch")
    logging.getLogger("huggingface_hub").propagate = False  # it has a handler of its own


def _require_key(settings: Settings, listener: socket.socket) -> None:
    """Raises CommandFailed if other machines can reach the server, and it needs no key."""
    if settings.api_keys or settings.allow_anonymous:
        return
    if reachable_by_others(listener):
        raise CommandFailed(
            f"without a key, anybody who reaches {listener.getsockname()[0]} could use this server:"
            " set GPT_OSS_API_KEY or --api-key-file, or listen on 127.0.0.1 (--host), or allow it"
            " with --allow-anonymous true"
        )


def _warn_of_unknown_variables() -> None:
    if unknown := unknown_variables(os.environ):
        logger.warning("these variables are no options, and are ignored: %s", ", ".join(unknown))


class Progress:
    """Shows the progress of loading on standard error: one line a stage, updated on a terminal."""

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
