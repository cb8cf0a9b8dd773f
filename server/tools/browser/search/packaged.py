"""Finds this project's own documentation, which is searched where nothing else is configured."""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

LABEL = "gpt-oss-server"
"""The host in the URLs of these pages."""
_ROOT = Path(__file__).resolve().parents[4]
_PAGE = f"share/doc/{LABEL}/index.md"


def docs_folder() -> Path | None:
    """The folder of the pages: in a checkout `docs`, else where the wheel installed them.

    None if they are not there, such as in an image without documentation.
    """
    if (_ROOT / "pyproject.toml").is_file() and (_ROOT / "docs" / "index.md").is_file():
        return _ROOT / "docs"
    try:
        installed = files(LABEL) or []
    except PackageNotFoundError:
        return None
    for file in installed:
        if file.as_posix().endswith(_PAGE):
            page = Path(str(file.locate())).resolve()
            return page.parent if page.is_file() else None
    return None
