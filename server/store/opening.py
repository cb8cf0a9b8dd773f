"""The store that the settings name."""

import os
from pathlib import Path

from server.settings import MEMORY, Settings
from server.store.base import Store
from server.store.memory import MemoryStore
from server.store.sql import SqlStore


def open_store(settings: Settings) -> Store:
    """The settings' store, not yet started; by default a file in the user's data folder.

    Raises ValueError for a bad URL, OSError where the folder cannot be made.
    """
    if settings.store == MEMORY:
        return MemoryStore()
    return SqlStore(settings.store or f"sqlite:///{_default_file()}")


def _default_file() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    folder = (Path(base) if base else Path.home() / ".local" / "share") / "gpt-oss-server"
    # What people said is nobody else's to read.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "store.db"
