"""Makes pages of documents in processes of their own: a hostile page can then be stopped.

It cannot stall the server either: a decoder, a regular expression or a parser lets no other thread
run until it has read its whole text. The parser of HTML needs a time that grows with the square of
the depth of elements and of the number of attributes: a page of 5 MiB can occupy it for hours. Each
process converts one page after another, and ends with its standard input.

As a program it reads requests from its standard input: a line of JSON (`url`, `media_type`,
`charset`, `source`, `size`), then the body. It writes the page as JSON without its text, then the
text in UTF-8, each after its size in 8 bytes.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from server import threads
from server.tools.browser import pdf
from server.tools.browser.charset import is_slow
from server.tools.browser.documents import pdf_page, text_page
from server.tools.browser.page import Page, page_from_json
from server.tools.fetch.errors import UnsupportedBody
from server.tools.fetch.pages import HTML_TYPES, PDF, FetchedPage

SECONDS = 5.0
SMALL_HTML = 4096
"""Bytes of HTML that no process is needed for: at worst it takes a few milliseconds."""
SMALL_TEXT = 1 << 16
"""Bytes of other text, likewise."""
_MOST_IDLE = 2
_MOST_KEPT = 1 << 19
"""Bytes of a body after which a process is kept: larger ones leave it with more than 50 MB, which
it does not return to the system."""
_MEMORY = 2 << 30
_SIZE = 8
"""Bytes of the size of a part of an answer."""
_BROKEN = (OSError, asyncio.IncompleteReadError)
"""What is raised where a process has ended."""
_ROOT = Path(__file__).resolve().parents[3]


class PageProcesses:
    """The processes of one server. seconds: what a page may take.

    At most as many run as there are conversions at once. PDF files have processes of another kind.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._idle: list[asyncio.subprocess.Process] = []

    async def convert(self, fetched: FetchedPage, *, source: bool = False) -> Page:
        """The page of what was fetched. Raises UnsupportedBody if that takes too long or fails.

        source: show the text as it was received, without conversion.
        """
        if fetched.media_type == PDF:
            return await _converted_pdf(fetched)
        if _is_small(fetched, source=source):
            return text_page(fetched, source=source)
        try:
            async with asyncio.timeout(self._seconds):
                if (process := self._take_idle()) is not None:
                    # One that has ended since it was used says nothing of this page.
                    with suppress(*_BROKEN):
                        return await self._ask(process, fetched, source=source)
                return await self._ask(await _start(), fetched, source=source)
        except TimeoutError as error:
            raise UnsupportedBody("the page takes too long to read") from error
        except _BROKEN as error:
            raise UnsupportedBody("the page cannot be read") from error

    async def _ask(
        self, process: asyncio.subprocess.Process, fetched: FetchedPage, *, source: bool
    ) -> Page:
        """The page, from a process that is kept if it can be used again. Raises `_BROKEN`."""
        try:
            page = await _converted(process, fetched, source=source)
        except BaseException:
            await _kill(process)
            raise
        if len(self._idle) < _MOST_IDLE and len(fetched.body) <= _MOST_KEPT:
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


def _is_small(fetched: FetchedPage, *, source: bool) -> bool:
    is_html = fetched.media_type in HTML_TYPES and not source
    if len(fetched.body) > (SMALL_HTML if is_html else SMALL_TEXT):
        return False
    return not is_slow(fetched.body, fetched.charset)


async def _converted_pdf(fetched: FetchedPage) -> Page:
    try:
        document = await pdf.extract(fetched.body)
    except pdf.UnreadablePdf as error:
        raise UnsupportedBody(str(error)) from error
    size = threads.counted(sum(map(len, document.pages)), SMALL_TEXT)
    return await threads.run(partial(pdf_page, fetched.url, document), size)


async def _start() -> asyncio.subprocess.Process:
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = (sys.executable, "-P", "-m", __name__)
    return await pdf.start_program(*command, PYTHONPATH=os.pathsep.join(paths))


async def _converted(
    process: asyncio.subprocess.Process, fetched: FetchedPage, *, source: bool
) -> Page:
    assert process.stdin is not None
    assert process.stdout is not None
    header = {
        "url": fetched.url,
        "media_type": fetched.media_type,
        "charset": fetched.charset,
        "source": source,
        "size": len(fetched.body),
    }
    process.stdin.write(json.dumps(header).encode() + b"\n")
    process.stdin.write(fetched.body)
    await process.stdin.drain()
    fields = await _read(process.stdout)
    text = await _read(process.stdout)
    size = threads.counted(len(fields) + len(text), threads.LARGE)
    return await threads.run(partial(_page, fields, text), size)


async def _read(source: asyncio.StreamReader) -> bytes:
    return await source.readexactly(int.from_bytes(await source.readexactly(_SIZE), "big"))


def _page(fields: bytes, text: bytes) -> Page:
    return page_from_json({**json.loads(fields), "text": text.decode()})


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def serve() -> None:
    """Convert what arrives on standard input, until it ends."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    for line in stdin:
        request = json.loads(line)
        size, source = request.pop("size"), request.pop("source")
        page = text_page(FetchedPage(**request, body=stdin.read(size)), source=source)
        fields = page.to_json()
        text = fields.pop("text").encode()
        for part in (json.dumps(fields).encode(), text):
            stdout.write(len(part).to_bytes(_SIZE, "big") + part)
        stdout.flush()


def main() -> None:
    """Run the program."""
    import resource

    if sys.platform == "linux":  # macOS refuses the limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve()


if __name__ == "__main__":
    main()
