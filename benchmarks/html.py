"""Measure how fast pages become text: `python -m benchmarks.html [FILE ...] [--kilobytes 100]`.

Without files, pages of HTML are made: from the project's documentation, alone and within a site,
and of rows and of links alone. Each line has the size of a page, its nodes, the milliseconds that
the conversion and the wrapping of lines take, and the ratio to selectolax's own `.text()`, which is
a lower bound. trafilatura and html2text are measured where they are installed. Times are of the
processor, the least of several runs.
"""

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from benchmarks.library.timing import shortest
from server.tools.browser.html import html_page
from server.tools.browser.lines import wrap

DOCS = Path(__file__).parents[1] / "docs"
URL = "https://docs.example/page.html"


def made(kilobytes: int) -> dict[str, str]:
    """Pages of about the size, by name."""
    markdown = MarkdownIt("commonmark").enable("table")
    parts = [
        markdown.render(page.read_text(encoding="utf-8")) for page in sorted(DOCS.glob("*.md"))
    ]
    body = "".join(parts)[: kilobytes * 1000]
    menu = "".join(f'<li class="item"><a href="/p/{n}.html">Page {n}</a></li>' for n in range(100))
    script = f"<script>{'var a = 1; ' * 2000}</script><style>{'.a { color: red } ' * 500}</style>"
    site = f"<html><head>{script}</head><body><nav><ul>{menu}</ul></nav><main>{body}"
    row = (
        "<tr>"
        + "".join(f'<td class="number">{n} of {n * n}</td>' for n in range(95, 102))
        + "</tr>"
    )
    link = '<li><a href="/wiki/An_article_{0}" title="An article">An article, number {0}</a></li>\n'
    rows = "".join(row for _ in range(1000))
    links = "".join(link.format(number) for number in range(2000))
    pages = {"text alone": body, "within a site": site, "rows": f"<table>{rows}", "links": links}
    return {name: page[: kilobytes * 1000] for name, page in pages.items()}


def milliseconds(work: Callable[[], Any], runs: int) -> float:
    return shortest(work, runs, time.process_time) * 1000


def others() -> dict[str, Callable[[str], Any]]:
    """Other converters that are installed."""
    found: dict[str, Callable[[str], Any]] = {}
    for name, function in (("trafilatura", "extract"), ("html2text", "html2text")):
        try:
            found[name] = getattr(importlib.import_module(name), function)
        except ImportError:
            print(f"{name} is not installed")
    return found


def measure(name: str, html: str, runs: int) -> None:
    body = LexborHTMLParser(html).body
    nodes = sum(1 for _ in body.traverse(include_text=True)) if body is not None else 0

    def floor() -> Any:
        parsed = LexborHTMLParser(html).body
        return parsed.text() if parsed is not None else ""

    least = milliseconds(floor, runs)
    own = milliseconds(lambda: wrap(html_page(html, URL).text), runs)
    print(
        f"{name}: {len(html) / 1000:.0f} KB, {nodes} nodes: {own:.1f} ms, "
        f"{own / least:.1f} times selectolax's .text() ({least:.1f} ms)"
    )
    for other, convert in others().items():
        other_time = milliseconds(partial(convert, html), max(1, runs // 5))
        print(f"  {other}: {other_time:.1f} ms, {other_time / own:.1f} times as long")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--kilobytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args(arguments)
    pages = {file.name: file.read_text("utf-8", "replace") for file in options.files}
    for name, html in (pages or made(options.kilobytes)).items():
        measure(name, html, options.runs)


if __name__ == "__main__":
    main()
