"""Parses the documentation pages for tests."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """The page's code blocks in a language, in order."""
    return [code for name, code in _BLOCK.findall(text(page)) if name == language]


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the page's shell blocks."""
    joined = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    return [shlex.split(line) for line in joined.splitlines() if line.strip()]


def inline(page: Path) -> list[str]:
    """The page's inline code."""
    return re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text(page)))


def section(page: Path, title: str) -> str:
    """What stands below a heading of the second level."""
    _, _, rest = text(page).partition(f"\n## {title}\n")
    assert rest, f"{page.name} has no section {title}"
    return rest.partition("\n## ")[0]


def table(part: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, without heads."""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
    bodies = [index for index, row in enumerate(rows) if set("".join(row)) <= {"-"}]
    heads = {*bodies, *(index - 1 for index in bodies)}
    return [[cell.strip() for cell in row] for index, row in enumerate(rows) if index not in heads]
