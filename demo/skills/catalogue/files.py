"""The text files in `demo/data`: their lines, or their blocks with an empty line between them."""

import re
from importlib import resources


def read_folder(folder: str) -> dict[str, str]:
    """The texts of all files of a folder in `demo/data`, by their names, in the names' order."""
    files = {file.name: file for file in resources.files("demo").joinpath("data", folder).iterdir()}
    return {name: files[name].read_text("utf-8") for name in sorted(files)}


def read(name: str) -> str:
    """The text of a file in `demo/data`."""
    return resources.files("demo").joinpath("data", name).read_text("utf-8")


def lines(name: str) -> list[str]:
    """The lines of a file in `demo/data` that are neither empty nor comments."""
    return [line for line in read(name).splitlines() if line and not line.startswith("#")]


def blocks(text: str) -> list[list[str]]:
    """The lines of each block, without lines that begin with `#`."""
    kept = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    return [block.splitlines() for block in re.split(r"\n{2,}", "\n".join(kept).strip())]
