"""The process in which grammars are compiled on trial: `python -P compiler.py DESCRIPTOR SECONDS`.

It is run by its path, and imports nothing of this project: it starts sooner and is smaller.
"""

import resource
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from llguidance import LLMatcher

# An engine compiles on a thread of 8 MiB: what fits in here fits in there.
_STACK_BYTES = 1 << 20
_MEMORY_BYTES = 2 << 30


def run(pipe: Connection, seconds: float) -> None:
    """Say that the process is ready, take a grammar, send its report, and so on for ever.

    A grammar that takes more of the processor's time than `seconds` ends the process by SIGPROF.
    Raises EOFError when the pipe is closed.
    """
    while True:
        pipe.send_bytes(b"")
        grammar = pipe.recv_bytes().decode()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        report: str = LLMatcher.validate_grammar(grammar)
        signal.setitimer(signal.ITIMER_PROF, 0)
        # The rest of the report quotes the grammar around the place.
        pipe.send_bytes(report.partition("\n")[0].removesuffix(".").encode())


def main(descriptor: int, seconds: float) -> None:
    """Take grammars from a pipe's `descriptor` until that is closed; `seconds` as in `run`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError):  # macOS bounds no memory
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=run, args=[Connection(descriptor), seconds])
    thread.start()
    thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
