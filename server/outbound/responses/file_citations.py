"""Citations of files that hosted calls wrote."""

import re
from collections.abc import Sequence
from typing import Any

from server.tools.base import CreatedFile

SCHEME = "sandbox:"
"""The scheme of the links to files that the model writes, such as `sandbox:/mnt/data/a.csv`."""
_END = r"(?![\w\-/%~+]|\.\w)"
"""What follows a whole path: no character of a longer one, such as that of `a.csv.gz`."""


def file_citations(text: str, files: Sequence[CreatedFile]) -> list[dict[str, Any]]:
    """An annotation for each file, in the order of the text.

    Its range is the first link to the file, without the brackets around it; the end of the text
    where there is no link. Of several versions of a file the last one is cited.
    """
    latest = {file.path: file for file in files}
    return sorted((_citation(text, file) for file in latest.values()), key=_start)


def _citation(text: str, file: CreatedFile) -> dict[str, Any]:
    link = f"{SCHEME}{file.path}"
    found = re.search(rf"{re.escape(link)}{_END}", text)
    start, end = found.span() if found else (len(text), len(text))
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
