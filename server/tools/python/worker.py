"""The process of a session: an IPython shell that runs cells.

It imports IPython and the standard library only.

It runs as a program of its own, confined. Requests come on descriptor 3, events leave on descriptor
4, each as a frame: the length as four bytes, big-endian, and a JSON object. What cells write to
stdout and stderr goes to descriptors 1 and 2.

Requests: `{"cell": ID, "code": CODE}` runs a cell, `{"interrupt": ID}` interrupts it. Events:
`{"event": "ready"}`; and, with the id of the cell, `{"event": "text", "stream": …, "text": …}`,
`{"event": "image", "media_type": …, "data": BASE64}`, and `{"event": "end", "raised": …}`, the last
one. Cells share this process, and may write anything to its descriptors: whoever reads the events
must not trust them.
"""

import ast
import base64
import builtins
import getpass
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as AnyTrait
from traitlets import Type
from traitlets.config import Config

REQUESTS, EVENTS = 3, 4
TEXT_CHARACTERS = 1 << 16
"""Characters of one text event."""
IMAGE_BYTES = 4 << 20
"""Bytes of one image. Larger ones are replaced by a note."""
DATA = "/mnt/data"

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Channel:
    """The two descriptors of the protocol."""

    def __init__(self, requests: int, events: int) -> None:
        self._requests = requests
        self._events = events
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self._interrupted: str | None = None
        self.cell: str | None = None
        """The cell that runs."""

    def receive(self) -> Any:
        """The next request; None after the last one."""
        header = self._read(4)
        return json.loads(self._read(int.from_bytes(header, "big"))) if header else None

    def begin(self, cell: str) -> bool:
        """Note that a cell runs from now on. Returns whether it was interrupted before."""
        with self._beginning:
            self.cell = cell
            return self._interrupted == cell

    def interrupt(self, cell: str) -> bool:
        """Whether a cell runs, so that a signal reaches it. Otherwise `begin` will know."""
        with self._beginning:
            self._interrupted = cell
            return self.cell == cell

    def send(self, event: str, **fields: Any) -> None:
        """Send an event of the cell that runs; drop it if none does."""
        with self._lock:
            if self.cell is None and event != "ready":
                return
            content = json.dumps({"event": event, "cell": self.cell, **fields}).encode()
            if event == "end":
                self.cell = None
            self._write(len(content).to_bytes(4, "big") + content)

    def close(self) -> None:
        """Close both descriptors. Safe to call twice: a forked process may fork again."""
        descriptors = (self._requests, self._events)
        self._requests = self._events = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def _read(self, size: int) -> bytes:
        content = b""
        while len(content) < size and (part := os.read(self._requests, size - len(content))):
            content += part
        return content if len(content) == size else b""

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(self._events, view) :]


class Publisher(DisplayPublisher):
    """Sends what cells display."""

    def publish(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        """Send the text and the images of one object."""
        shell: Any = self.shell
        send_data(shell.channel, data)

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: what was sent cannot be taken back."""


class ResultHook(DisplayHook):
    """Sends the value of a cell's last expression."""

    def log_output(self, format_dict: dict[str, Any]) -> None:
        """Keep nothing of what is sent: it would take memory as long as the session lives."""

    def write_output_prompt(self) -> None:
        """Write no prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        """Send the value."""
        shell: Any = self.shell
        send_data(shell.channel, format_dict)

    def finish_displayhook(self) -> None:
        """Write no line end."""


class Shell(InteractiveShell):
    """IPython's shell, which sends results, and has no terminal."""

    displayhook_class = Type(ResultHook)
    display_pub_class = Type(Publisher)
    channel = AnyTrait()

    def system(self, cmd: str) -> None:
        """Run a line that begins with `!`. Its output is that of this process."""
        flush()
        command = self.var_expand(cmd, depth=1)  # type: ignore[no-untyped-call]
        self.user_ns["_exit_code"] = subprocess.call(command, shell=True)

    @contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """Do nothing: IPython would keep all that cells print as long as the session lives."""
        yield

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> None:
        """Keep no traceback, for the same reason."""

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        """Send a traceback."""
        flush()
        send_text(self.channel, "error", self.InteractiveTB.stb2text(stb))

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: there is no screen."""

    def ask_exit(self) -> None:
        """Do nothing: `exit` does not end the session."""


class DataPaths(ast.NodeTransformer):
    """Replaces `/mnt/data` at the beginning of string literals, where the folder is elsewhere."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = re.compile(r"(?<![\w/.-])/mnt/data(?![\w.-])")

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Replace the path in a literal that begins with it."""
        if isinstance(node.value, str) and self._path.match(node.value):
            return ast.copy_location(ast.Constant(self.replace(node.value)), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace the path anywhere in lines of the shell and in magics."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LINES:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    argument.value = self.replace(argument.value)
        return self.generic_visit(node)

    def replace(self, text: str) -> str:
        """The text with the folder's true path."""
        return self._path.sub(self._folder.replace("\\", r"\\"), text)


_LINES = {"system", "getoutput", "run_line_magic", "run_cell_magic"}


def send_text(channel: Channel, stream: str, text: str) -> None:
    """Send text in parts."""
    for start in range(0, len(text), TEXT_CHARACTERS):
        channel.send("text", stream=stream, text=text[start : start + TEXT_CHARACTERS])


def send_data(channel: Channel, data: dict[str, Any]) -> None:
    """Send an object by its representations."""
    flush()
    if text := data.get("text/plain"):
        send_text(channel, "result", f"{text}\n")
    for media_type in _IMAGES:
        if content := data.get(media_type):
            _send_image(channel, media_type, content)


def _send_image(channel: Channel, media_type: str, content: bytes | str) -> None:
    image = base64.b64decode(content) if isinstance(content, str) else content
    if len(image) > IMAGE_BYTES:
        note = f"[an image of {len(image)} bytes is larger than {IMAGE_BYTES} and left out]\n"
        send_text(channel, "result", note)
        return
    channel.send("image", media_type=media_type, data=base64.b64encode(image).decode())


def flush() -> None:
    """Write what Python still buffers of stdout and stderr."""
    for name in ("stdout", "stderr"):
        with suppress(Exception):  # A cell has replaced, closed or deleted it.
            getattr(sys, name).flush()


def no_input(*_: Any, **__: Any) -> str:
    """What `input` does: nobody can answer."""
    raise StdinNotImplementedError("input() is not available: nobody can type an answer")


def make_shell(channel: Channel) -> Shell:
    """The shell of the session."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Context"
    config.InteractiveShell.autocall = 0
    config.PlainTextFormatter.max_width = 120
    shell = Shell.instance(config=config, channel=channel)
    builtins.input = no_input
    getpass.getpass = no_input
    # Debuggers would wait for somebody who types.
    sys.breakpointhook = lambda *_, **__: None
    folder = os.getcwd()
    if folder != DATA:
        shell.ast_transformers.append(DataPaths(folder))
    return shell


def serve(channel: Channel, shell: Shell) -> None:
    """Run cells until the requests end."""
    cells: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
    process = os.getpid()
    os.register_at_fork(after_in_child=channel.close)
    threading.Thread(target=_receive, args=(channel, cells), daemon=True).start()
    # A cell that goes on in a forked process ends there.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel.send("ready")
    while (cell := cells.get()) is not None:
        _run(channel, shell, *cell)
        if os.getpid() != process:
            os._exit(0)


def _run(channel: Channel, shell: Shell, cell: str, code: str) -> None:
    process = os.getpid()
    raised = True
    try:
        try:
            # Before the cell is known to run: from then on, the signal may come.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if channel.begin(cell):
                raise KeyboardInterrupt
            result = shell.run_cell(code, store_history=True)  # type: ignore[no-untyped-call]
            raised = not result.success
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        # It may have come in the line above, before signals were ignored.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        send_text(channel, "error", "KeyboardInterrupt\n")
    flush()
    if os.getpid() == process:
        channel.send("end", raised=raised)


def _receive(channel: Channel, cells: "queue.SimpleQueue[tuple[str, str] | None]") -> None:
    """Read requests, on a thread of its own."""
    main = threading.main_thread().ident
    assert main is not None
    while (request := channel.receive()) is not None:
        if "interrupt" not in request:
            cells.put((request["cell"], request["code"]))
        elif channel.interrupt(request["interrupt"]):
            signal.pthread_kill(main, signal.SIGINT)
    cells.put(None)


def main() -> None:
    """The program."""
    os.set_inheritable(REQUESTS, False)
    os.set_inheritable(EVENTS, False)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = open(  # noqa: SIM115 - open as long as the process runs
            descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        setattr(sys, name, stream)
    channel = Channel(REQUESTS, EVENTS)
    shell = make_shell(channel)
    # What the first cell would import.
    shell.run_cell("1", silent=True)  # type: ignore[no-untyped-call]
    serve(channel, shell)


if __name__ == "__main__":
    main()
