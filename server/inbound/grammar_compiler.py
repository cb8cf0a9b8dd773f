"""The process that compiles grammars for `grammar_sandbox`.

Usage: `python -P grammar_compiler.py DESCRIPTOR SECONDS`. It is run by its path and imports nothing
of this project, so that it starts fast and takes little memory.
"""

import resource
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from llguidance import LLMatcher

# An engine compiles on a thread of 8 MiB. What fits into a smaller stack fits into that one.
_STACK_BYTES = 1 << 20
_MEMORY_BYTES = 2 << 30


def run(pipe: Connection, seconds: float) -> None:
    """Compile grammars from a pipe until it is closed, which raises EOFError.

    For each grammar the process sends an empty message when it is ready, receives the grammar, and
    sends a report of one line, which is empty if the grammar compiles. A grammar that takes more
    than `seconds` of CPU time ends the process by SIGPROF.
    """
    while True:
        pipe.send_bytes(b"")
        grammar = pipe.recv_bytes().decode()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        report = _report(grammar)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send_bytes(report.encode())


def _report(grammar: str) -> str:
    try:
        report: str = LLMatcher.validate_grammar(grammar)
    except BaseException as error:
        # A panic of the library, such as by an invalid regex in the options of a JSON schema, has
        # no public type. It would end this process, and look like a fault of the server.
        if type(error).__name__ != "PanicException":
            raise
        return "it makes the grammar library fail"
    # Further lines of the report quote the grammar, except for the reason why a regex is invalid.
    first, *others = report.split("\n")
    reasons = [line.removeprefix("error:") for line in others if line.startswith("error:")]
    return "".join([first, *reasons[:1]]).removesuffix(".")


def main(descriptor: int, seconds: float) -> None:
    """Compile grammars from the pipe with this file descriptor; `seconds` as in `run`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError):  # macOS has no limit on memory
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=run, args=[Connection(descriptor), seconds])
    thread.start()
    thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
