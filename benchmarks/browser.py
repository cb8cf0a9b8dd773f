"""Measure the browser's own time, without any network: `python -m benchmarks.browser`.

    python -m benchmarks.browser [--documents 1000] [--kilobytes 100] [--runs 20]

The output has milliseconds of wall time: of a search that waits until a new folder is indexed, of
the first search over a folder that was indexed before, of later searches, and of calls on a page
that is in the cache (`open`, scrolling, `find`). It has the median and the greatest of the runs.
The documents are made from the project's documentation.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.html import made
from harmony.messages import Channel
from server.tools.base import ToolCall, ToolContext, ToolResult
from server.tools.browser.session import BrowserSession
from server.tools.browser.tool import BrowserOptions, BrowserTool

DOCS = Path(__file__).parents[1] / "docs"
CONTEXT = ToolContext("owner", "resp_1", "tools.0", 60.0)
CONFIG = {"type": "web_search"}


def write_documents(folder: Path, count: int) -> None:
    """Write `count` documents, each a page of the documentation with a number of its own."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))]
    for number in range(count):
        text = f"{pages[number % len(pages)]}\n\nThis is copy {number}.\n"
        (folder / f"{number:05}.md").write_text(text, encoding="utf-8")


async def run(session: BrowserSession, function: str, **arguments: object) -> float:
    """Milliseconds of one call. Raises AssertionError if the call fails."""
    call = ToolCall("ws_1", f"browser.{function}", Channel.ANALYSIS, json.dumps(arguments))
    start = time.perf_counter()
    *_, result = [event async for event in session.run(call)]
    taken = (time.perf_counter() - start) * 1000
    assert isinstance(result, ToolResult)
    assert not result.failed, result.text
    return taken


async def measure_searches(folder: Path, cache: Path, runs: int) -> dict[str, list[float]]:
    """Milliseconds of searches, by name. The first start of the tool indexes the folder."""
    options = BrowserOptions(search=(f"files:{folder}",), cache=str(cache))
    first = []
    for _ in range(2):
        tool = BrowserTool(options, {})
        await tool.start()
        session = await tool.open(CONFIG, CONTEXT)
        first.append(await run(session, "search", query="limit of open connections"))
        words = ("grammar", "PostgreSQL", "reasoning effort", "sandbox memory", "stream events")
        later = [await run(session, "search", query=words[n % len(words)]) for n in range(runs)]
        await session.close()
        await tool.stop()
    return {"while indexing": first[:1], "first search": first[1:], "later search": later}


async def measure_calls(html: bytes, runs: int) -> dict[str, list[float]]:
    """Milliseconds of calls on a cached page, by name."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(html)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + html)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    host = f"localhost:{server.sockets[0].getsockname()[1]}"
    tool = BrowserTool(BrowserOptions(allow_domain=(host,), robots=False), {})
    await tool.start()
    times: dict[str, list[float]] = {"open": [], "scroll": [], "find": []}
    session = await tool.open(CONFIG, CONTEXT)
    await run(session, "open", id=f"http://{host}/page")
    server.close()
    await session.close()
    for _ in range(runs):
        # Each answer has its own pages; the cache is that of the owner.
        session = await tool.open(CONFIG, CONTEXT)
        times["open"].append(await run(session, "open", id=f"http://{host}/page"))
        times["scroll"].append(await run(session, "open", loc=1))
        times["find"].append(await run(session, "find", pattern="connection"))
        await session.close()
    await tool.stop()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--kilobytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    html = made(options.kilobytes)["within a site"].encode()
    with tempfile.TemporaryDirectory() as temporary:
        folder, cache = Path(temporary) / "documents", Path(temporary) / "cache"
        folder.mkdir()
        write_documents(folder, options.documents)
        times = asyncio.run(measure_searches(folder, cache, options.runs))
    times |= asyncio.run(measure_calls(html, options.runs))
    for name, each in times.items():
        print(f"{name:14} median {statistics.median(each):6.2f} ms  greatest {max(each):6.2f} ms")


if __name__ == "__main__":
    main()
