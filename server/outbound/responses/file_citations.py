"""Citations of files that hosted calls wrote."""

import re
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

from server.tools.base import CreatedFile

SCHEME = "sandbox:"
"""The scheme of the links to files that the model writes, such as `sandbox:/mnt/data/a.csv`."""
_END = re.compile(r"(?![\w\-/%~+]|\.\w)")
"""What follows a whole path: no character of a longer one, such as that of `a.csv.gz`."""
_IN_PATHS = "/!$&'()*+,;=:@"
"""What a path of a URL may have as it is, beside letters, digits and `-._~` (RFC 3986)."""
_MOST_LOOKUPS = 100_000
"""How often a path is looked up in one text, which takes some 40 ms. Answers may have thousands of
links, and files whose paths, written in each way, have a thousand lengths."""


def file_citations(text: str, files: Sequence[CreatedFile]) -> list[dict[str, Any]]:
    """An annotation for each file, in the order of the text.

    Its range is the first link to the file, without the brackets around it; the end of the text
    where there is no link, or only one after very many others. Of several versions of a file the
    last one is cited.
    """
    if not files:
        return []
    latest = {file.path: file for file in files}
    links = _first_links(text, latest)
    nowhere = (len(text), len(text))
    citations = (_citation(file, *links.get(path, nowhere)) for path, file in latest.items())
    return sorted(citations, key=_start)


def _first_links(text: str, paths: Collection[str]) -> dict[str, tuple[int, int]]:
    """The start and the end of the first link to each path that has one."""
    written = {form: path for path in paths for form in _escaped(path)}
    written |= {path: path for path in paths}
    lengths = sorted({len(each) for each in written})
    found: dict[str, tuple[int, int]] = {}
    most = _MOST_LOOKUPS // len(lengths)
    for link in islice(re.finditer(SCHEME, text), most):
        start, begin = link.span()
        for end in (begin + length for length in lengths):
            path = written.get(text[begin:end])
            if path is not None and path not in found and _END.match(text, end):
                found[path] = (start, end)
    return found


def _escaped(path: str) -> tuple[str, ...]:
    """How links write a path with what they may not have as it is: as in a URL, with all escapes or
    those that it needs, or with `%20` for spaces alone, which Markdown needs."""
    return quote(path), quote(path, safe=_IN_PATHS), path.replace(" ", "%20")


def _citation(file: CreatedFile, start: int, end: int) -> dict[str, Any]:
    return {
        "type": "container_file_citation",
        "container_id": file.container_id,
        "file_id": file.file_id,
        "filename": file.filename,
        "start_index": start,
        "end_index": end,
    }


def _start(citation: dict[str, Any]) -> int:
    start: int = citation["start_index"]
    return start
