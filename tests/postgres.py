"""A PostgreSQL server of the tests' own, for every test that asks for it."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from tests.ports import free_port


class Postgres:
    """A PostgreSQL server on a free port; it refuses to run as root. folder: that of its socket."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self.port = free_port()
        self._run(
            "initdb", "--username=test", "--auth=trust", "--no-sync", f"--pgdata={folder}/data"
        )
        self.start()

    def start(self) -> None:
        settings = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        self._control("start", "-w", "-o", settings, "-l", f"{self.folder}/log")
        self.running = True

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._control("stop", "-m", "immediate")
        self.running = False

    def end(self) -> None:
        """End it, unless it has ended."""
        if self.running:
            self.kill()

    def new_database(self) -> str:
        """The URL of an empty database, the one before emptied: making one takes 8 MB."""
        url = f"postgresql://test@127.0.0.1:{self.port}/postgres"
        asyncio.run(_empty(url))
        return url

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*as_user, str(self._programs / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")


async def _empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("DROP SCHEMA public CASCADE")
    await connection.execute("CREATE SCHEMA public")
    await connection.close()


def _programs() -> Path | None:
    """Where initdb is: on the PATH, or where Debian puts it; the newest."""
    on_path = [Path(found).parent] if (found := shutil.which("initdb")) else []
    return next(iter([*on_path, *sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]]), None)


@pytest.fixture(scope="session")
def start_postgres() -> Iterator[Callable[[], Postgres]]:
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with ExitStack() as opened:

        def start() -> Postgres:
            # Not pytest's folder: only its owner may look into that.
            folder = Path(tempfile.mkdtemp(prefix="gpt-oss-postgres-"))
            opened.callback(shutil.rmtree, folder)
            if os.getuid() == 0:
                os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
            server = Postgres(programs, folder)
            opened.callback(server.end)
            return server

        yield start


@pytest.fixture(scope="session")
def postgres(start_postgres: Callable[[], Postgres]) -> Postgres:
    return start_postgres()
