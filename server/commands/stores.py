"""Creates the store that the settings select.

SQLAlchemy and Alembic are imported for a store that needs them only: they take 33 MB, and 0.4 s of
processor time.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

from server.settings import Settings
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


def open_store(settings: Settings) -> Store:
    """Return the settings' store, not yet started; by default a file in the user's data folder.

    Raises ValueError for an invalid URL, OSError if the folder or the file cannot be created.
    """
    if settings.has_memory_store:
        return MemoryStore()
    from server.store.responses.sql import SqlStore
    from server.store.sqlalchemy_engine import parse_url

    if not settings.store:
        default_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    url = settings.store or _default_url()
    _make_private(parse_url(url))
    return SqlStore(url, settings.store_connections)


def default_file() -> Path:
    """Where responses are stored without `--store`; it need not exist."""
    folder = user_data_path("gpt-oss-server", appauthor=False)
    return folder / "store.db"


def _default_url() -> str:
    from sqlalchemy.engine import URL

    # Names of folders may have characters that mean something else in a URL.
    return URL.create("sqlite", database=str(default_file())).render_as_string()


def _make_private(url: "URL") -> None:
    """Create SQLite's file, readable by its owner only. SQLite gives its other files this mode."""
    if url.get_backend_name() == "sqlite" and "uri" not in url.query:
        with suppress(FileExistsError):
            Path(url.database or "").touch(mode=0o600, exist_ok=False)
