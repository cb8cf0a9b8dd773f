"""Extracts the text of PDF files, in a process of its own: a hostile file can then be stopped.

As a program it reads a file from its standard input, and writes JSON: the title and the text of
each page. Run as a file (`python -P pdf.py`), it imports nothing of the server.
"""

import asyncio
import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10.0
_MEMORY = 1 << 30
_MOST_PAGES = 300
_MOST_CHARACTERS = 2_000_000
_MOST_TITLE = 1000
_UNREADABLE = "the PDF file cannot be read"
_NEEDED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")
_COMMAND = (sys.executable, "-P", str(Path(__file__).resolve()))


class UnreadablePdf(Exception):
    """The file is damaged, encrypted, too large, or takes too long."""


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF file, page by page."""

    title: str
    pages: tuple[str, ...]


async def extract(body: bytes, seconds: float = SECONDS) -> PdfText:
    """The text of a PDF file. Raises UnreadablePdf. The process ends with the caller."""
    try:
        process = await start_program(*_COMMAND)
    except OSError as error:
        raise UnreadablePdf(_UNREADABLE) from error
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate(body)
    except TimeoutError as error:
        raise UnreadablePdf("the PDF file takes too long to read") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return await asyncio.to_thread(_parsed, process.returncode, output)


async def start_program(*command: str, **variables: str) -> asyncio.subprocess.Process:
    """Start a program that reads a document. Raises OSError.

    variables: of its environment, beside those that the interpreter needs. It has no keys of this
    process.
    """
    needed = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=needed | variables,
        start_new_session=True,  # Ctrl-C must not reach it: the server ends it
    )


def _parsed(status: int | None, output: bytes) -> PdfText:
    if status != 0:
        raise UnreadablePdf(_UNREADABLE)
    data = json.loads(output)
    return PdfText(data["title"], tuple(data["pages"]))


def read(data: bytes) -> dict[str, object]:
    """The title and the pages' texts of a file. Raises what pypdf raises."""
    from io import BytesIO

    from pypdf import PdfReader

    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted:
        reader.decrypt("")
    pages: list[str] = []
    size = 0
    for page in reader.pages[:_MOST_PAGES]:
        pages.append(page.extract_text()[: _MOST_CHARACTERS - size])
        size += len(pages[-1])
        if size == _MOST_CHARACTERS:
            break
    title = reader.metadata.title if reader.metadata is not None else None
    return {"title": str(title or "")[:_MOST_TITLE], "pages": pages}


def main() -> int:
    """Read standard input, write standard output; the exit status."""
    import resource

    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
    if sys.platform == "linux":  # macOS refuses the limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.stdout.write(json.dumps(read(sys.stdin.buffer.read())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
