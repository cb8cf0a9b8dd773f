"""The command `python-sandbox`: runs Python sessions for gateways, as a service of its own."""

import asyncio
import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from server.commands.failure import CommandFailed
from server.commands.file_limit import raise_file_limit
from server.commands.listening import bind, listen, reachable_by_others
from server.commands.log_lines import log_to_stderr
from server.commands.site import serve_site
from server.commands.stop_signals import StopSignals
from server.tools.python.opening import default_folder
from server.tools.python.process import ProcessSandbox
from server.tools.python.service import create_service

logger = logging.getLogger(__name__)

KEY = "GPT_OSS_PYTHON_SANDBOX_KEY"
SESSION_FILES = 8
"""Files that a session needs: its pipes, and what is open for a request to it."""

OTHER_FILES = 256
"""Files that the service needs in addition to those of sessions."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The options of the command. key: None for the environment's."""

    host: str = "127.0.0.1"
    port: int = 8001
    key: str | None = None
    folder: Path | None = None
    sessions: int = 64


def run_service(options: ServiceOptions) -> None:
    """Serve until interrupted (Ctrl-C, SIGTERM or SIGHUP), then end all sessions.

    Raises CommandFailed where the service cannot listen, sessions cannot be confined, or anybody
    could use them, and KeyboardInterrupt for Ctrl-C.
    """
    log_to_stderr(logging.INFO)
    needed = options.sessions * SESSION_FILES + OTHER_FILES
    raise_file_limit(needed, f"--sessions {options.sessions}")
    key = options.key or os.environ.get(KEY) or None
    stop = StopSignals()
    stop.install()
    try:
        with bind(options.host, options.port) as listener:
            if key is None and reachable_by_others(listener):
                raise CommandFailed(f"set --key or {KEY}: other machines can reach {options.host}")
            listen(listener)
            _run(options, key, listener)
    except KeyboardInterrupt:
        if not stop.came:
            raise


def _run(options: ServiceOptions, key: str | None, listener: socket.socket) -> None:
    sandbox = ProcessSandbox(options.folder or default_folder(), most=options.sessions)
    with asyncio.Runner() as runner:
        try:
            runner.run(_serve(sandbox, key, listener))
        finally:
            # In a task of its own: uvicorn raises the signal again that ended the other one.
            runner.run(sandbox.stop())


async def _serve(sandbox: ProcessSandbox, key: str | None, listener: socket.socket) -> None:
    await sandbox.start()
    for name, state in sandbox.layers.items():
        logger.info("%s: %s", name, state)
    if sandbox.problem is not None:
        raise CommandFailed(sandbox.problem)
    service = create_service(sandbox, key)
    await serve_site(
        service, listener, lambda address: logger.info("Python sessions at %s", address)
    )
