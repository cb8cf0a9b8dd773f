"""Converts HTML in processes of their own: a hostile page can then be stopped.

The parser needs a time that grows with the square of the depth of elements and of the number of
attributes: a page of 5 MiB can occupy it for hours. Each process converts one page after another,
and ends with its standard input.

As a program it reads requests from its standard input: a line of JSON (`url`, `size`), then the
text in UTF-8. It writes the size in 8 bytes, then the page as JSON.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from server import threads
from server.tools.browser.html import html_page
from server.tools.browser.page import Page, page_from_json
from server.tools.fetch.errors import UnsupportedBody

SECONDS = 5.0
SMALL = 4096
"""Characters of a page that no process is needed for: at worst it takes a few milliseconds."""
_MOST_IDLE = 2
_MOST_KEPT = 1 << 19
"""Characters of a page after which a process is kept: larger ones leave it with more than 50 MB,
which it does not return to the system."""
_MEMORY = 2 << 30
_BROKEN = (OSError, asyncio.IncompleteReadError)
"""What is raised where a process has ended."""
_NEEDED = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME")
_ROOT = Path(__file__).resolve().parents[3]


class HtmlProcesses:
    """The processes of one server. seconds: what a page may take.

    At most as many run as there are conversions at once.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._idle: list[asyncio.subprocess.Process] = []

    async def convert(self, html: str, url: str) -> Page:
        """The page of an HTML text. Raises UnsupportedBody if that takes too long or fails."""
        if len(html) <= SMALL:
            return html_page(html, url)
        try:
            async with asyncio.timeout(self._seconds):
                if (process := self._take_idle()) is not None:
                    # One that has ended since it was used says nothing of this page.
                    with suppress(*_BROKEN):
                        return await self._ask(process, html, url)
                return await self._ask(await _start(), html, url)
        except TimeoutError as error:
            raise UnsupportedBody("the page takes too long to read") from error
        except _BROKEN as error:
            raise UnsupportedBody("the page cannot be read") from error

    async def _ask(self, process: asyncio.subprocess.Process, html: str, url: str) -> Page:
        """The page, from a process that is kept if it can be used again. Raises `_BROKEN`."""
        try:
            page = await _converted(process, html, url)
        except BaseException:
            await _kill(process)
            raise
        if len(self._idle) < _MOST_IDLE and len(html) <= _MOST_KEPT:
            self._idle.append(process)
        else:
            await _kill(process)
        return page

    def _take_idle(self) -> asyncio.subprocess.Process | None:
        """An idle process that runs, as far as is known."""
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        return None

    async def close(self) -> None:
        """End the processes. Safe to call twice."""
        while self._idle:
            await _kill(self._idle.pop())


async def _start() -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__),
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
    )


async def _converted(process: asyncio.subprocess.Process, html: str, url: str) -> Page:
    assert process.stdin is not None
    assert process.stdout is not None
    content = html.encode("utf-8", "replace")
    header = json.dumps({"url": url, "size": len(content)}).encode()
    process.stdin.write(header + b"\n" + content)
    await process.stdin.drain()
    size = int.from_bytes(await process.stdout.readexactly(8), "big")
    answer = await process.stdout.readexactly(size)
    return await threads.run(partial(_page, answer), threads.counted(size, threads.LARGE))


def _page(answer: bytes) -> Page:
    return page_from_json(json.loads(answer))


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def serve() -> None:
    """Convert what arrives on standard input, until it ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    for line in source:
        request = json.loads(line)
        html = source.read(request["size"]).decode()
        page = json.dumps(html_page(html, request["url"]).to_json()).encode()
        target.write(len(page).to_bytes(8, "big") + page)
        target.flush()


def main() -> None:
    """Run the program."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    if sys.platform == "linux":  # macOS refuses the limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve()


if __name__ == "__main__":
    main()
