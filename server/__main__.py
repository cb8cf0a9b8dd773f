"""The entry point of `python -m server` and of the `gpt-oss-server` script."""

import atexit
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn


def main() -> int:
    """Run the command line. Returns the exit status."""
    if sys.platform == "win32":
        print("gpt-oss-server runs on Linux and macOS; on Windows, run it in WSL.", file=sys.stderr)
        return 1
    if os.getpid() == 1:
        # In a container. The kernel gives this process no SIGTERM that it does not handle: a server
        # that is told to stop during its imports would start, and serve until it is killed.
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    # Imported here, because its imports fail on Windows.
    from server.commands import main

    status = main.main()
    if sys.argv[1:2] in (["render"], ["parse"]):
        # A fifth of their time would be spent on freeing the vocabulary's tables.
        _exit(status)
    threads = sys.modules.get("adapters.daemon_thread")
    if threads is not None and threads.is_at_work():
        # Stopped while a model loads. Python would end the thread where it next needs Python, and
        # the process would abort: functions of torch cannot be left in this way.
        atexit._run_exitfuncs()
        _exit(status)
    return status


def _exit(status: int) -> NoReturn:
    """End the process at once, and free nothing."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None where it was closed before the start
            stream.flush()
    os._exit(status)


def _remove_working_directory() -> None:
    """Remove the working directory from `sys.path`: its modules would hide installed ones.

    `python -m` puts it first. A checkout of this project stays, because this package is in it.
    """
    with suppress(FileNotFoundError):  # the working directory may have been deleted
        folder = Path.cwd()
        if Path(sys.path[0]).resolve() == folder != Path(__file__).resolve().parents[1]:
            del sys.path[0]


if __name__ == "__main__":
    if not sys.flags.safe_path:
        _remove_working_directory()
    sys.exit(main())
