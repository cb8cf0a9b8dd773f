"""Where the settings' store is, and who may read it."""

import os
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest

from server.commands.stores import open_store
from server.settings import Settings
from server.store.responses.memory import MemoryStore


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", [None, "given.db"])
async def test_the_store_is_its_owners_alone(tmp_path: Path, name: str | None) -> None:
    url = None if name is None else f"sqlite:///{tmp_path}/{name}"
    store = open_store(Settings(store=url))
    await store.start()
    file = tmp_path / (name or "home/gpt-oss-server/store.db")
    files = [*file.parent.glob(f"{file.name}*"), *file.parent.glob(f"{file.name}-gateways/*")]
    modes = {(each.is_dir(), S_IMODE(each.stat().st_mode)) for each in files}
    assert modes == {(False, 0o600), (True, 0o700)}
    await store.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
async def test_the_default_store_is_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    store = open_store(Settings())
    assert (tmp_path / ".local/share/gpt-oss-server/store.db").exists()
    await store.stop()


@pytest.mark.parametrize("name", ["a%41", "a?b=c", "a#b", "100%", "a b", "ü"])
async def test_the_users_data_folder_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / name))
    store = open_store(Settings())
    await store.start()
    await store.stop()
    assert (tmp_path / name / "gpt-oss-server/store.db").stat().st_size > 0
    assert os.listdir(tmp_path) == [name]


async def test_a_store_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.touch()
    file.chmod(0o640)
    store = open_store(Settings(store=f"sqlite:///{file}"))
    await store.start()
    await store.stop()
    assert S_IMODE(file.stat().st_mode) == 0o640


def test_the_store_has_the_connections_of_the_settings(tmp_path: Path) -> None:
    store: Any = open_store(Settings(store=f"sqlite:///{tmp_path}/s.db", store_connections=7))
    pool = store.database.engine.pool
    assert pool.size() + pool._max_overflow == 7


def test_sqlites_own_names_of_files_are_left_to_it(tmp_path: Path) -> None:
    open_store(Settings(store=f"sqlite:///file:{tmp_path}/store.db?mode=ro&uri=true"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_store(Settings(store=f"sqlite:///{tmp_path}/none/store.db"))


def test_a_store_in_memory_has_no_file(tmp_path: Path) -> None:
    assert isinstance(open_store(Settings(store="memory")), MemoryStore)
    assert not list(tmp_path.iterdir())


def test_a_store_in_memory_imports_no_database() -> None:
    program = """
import sys
import server.commands.serve
from server.commands.stores import open_store
from server.settings import Settings
open_store(Settings(store="memory"))
print([name for name in ("sqlalchemy", "alembic", "asyncpg") if name in sys.modules])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
