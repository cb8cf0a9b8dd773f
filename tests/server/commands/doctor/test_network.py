"""The hub, engines, the port and the store, against sockets and files that are really there."""

import asyncio
import http.server
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from huggingface_hub import constants

from adapters.requirements import MXFP4_KERNELS as MXFP4
from server.commands.doctor import network
from server.commands.doctor.check import Check
from server.commands.doctor.network import (
    check_engines,
    check_hub,
    check_kernels,
    check_port,
    check_store,
    hub_cache,
)
from server.settings import Settings
from tests.ports import free_port
from tests.postgres import Postgres

ROOT = Path(__file__).parents[4]
MODEL = "org/model"


class Answering(http.server.ThreadingHTTPServer):
    """Answers everything with `status` and what an engine of SGLang says of itself.

    key: asked for, where there is one. asked: path and authorization of each request.
    """

    status = 200
    key: str | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["authorization"]))
        key = self.server.key
        known = key is None or self.headers["authorization"] == f"Bearer {key}"
        self.send_response(self.server.status if known else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "m", "max_model_len": 9}]}')

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def web() -> Iterator[Answering]:
    with Answering() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def hub(web: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answering:
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return web


def cache_model() -> None:
    folder = hub_cache() / "models--org--model/snapshots/1"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()


@pytest.mark.parametrize(
    "variables",
    [
        {"HUGGINGFACE_HUB_CACHE": "/big/hub"},
        {"HF_HUB_CACHE": "$BIG/hub", "BIG": "/big"},
        {"HF_HOME": "$BIG", "BIG": "/big"},
    ],
)
def test_the_cache_is_that_of_the_hubs_library(variables: dict[str, str]) -> None:
    # The library reads the variables when it is loaded, so it needs a process of its own.
    program = "from server.commands.doctor.network import hub_cache; print(hub_cache())"
    rest = {name: text for name, text in os.environ.items() if not name.startswith("HF_")}
    shown = subprocess.run(
        [sys.executable, "-c", program],
        env=rest | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "/big/hub\n"


@pytest.mark.parametrize("token", ["secret", "secret\n"])
def test_a_hub_that_has_the_model(
    hub: Answering, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    check = check_hub(Settings(model=MODEL))
    assert check.status == "ok"
    assert hub.asked == [("/api/models/org/model", "Bearer secret")]


def test_a_hub_gets_the_token_that_was_saved(hub: Answering, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("saved\n", encoding="utf-8")
    assert check_hub(Settings(model=MODEL)).status == "ok"
    assert hub.asked == [("/api/models/org/model", "Bearer saved")]


def test_a_saved_token_that_cannot_be_read_is_reported(hub: Answering, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    check = check_hub(Settings(model=MODEL))
    assert (check.status, check.fact) == (
        "failed",
        "the saved token cannot be read: UnicodeDecodeError",
    )
    assert hub.asked == []


def test_a_hub_gets_no_token_that_the_user_wants_to_keep(
    hub: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("saved", encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    assert check_hub(Settings(model=MODEL)).status == "ok"
    assert hub.asked == [("/api/models/org/model", None)]


@pytest.mark.parametrize("token", ["sec\x01ret", "s\xe9cret"])
def test_a_token_that_no_header_may_have_is_not_shown(
    hub: Answering, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    check = check_hub(Settings(model=MODEL))
    assert check.status == "failed"
    assert check.advice.startswith("correct HF_TOKEN")
    assert "ret" not in check.fact
    assert hub.asked == []


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_hub_that_refuses(hub: Answering, status: int) -> None:
    hub.status = status
    check = check_hub(Settings(model=MODEL))
    assert (check.status, str(status) in check.fact) == ("failed", True)
    cache_model()
    assert check_hub(Settings(model=MODEL)).status == "warning"


def test_a_hub_that_is_not_there(hub: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert check_hub(Settings(model=MODEL)).status == "failed"
    cache_model()
    assert check_hub(Settings(model=MODEL)).status == "warning"


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_the_hub_is_not_asked(
    hub: Answering, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    check = check_hub(Settings(model=MODEL))
    assert (check.status, check.advice.startswith(f"unset {name},")) == ("failed", True)
    cache_model()
    assert check_hub(Settings(model=MODEL)).status == "ok"
    assert hub.asked == []


def test_kernels_of_packed_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    found = check_kernels()
    assert (found.status, found.fact.partition(" ")[2][:18]) == ("ok", "will be downloaded")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = check_kernels()
    assert found.status == "failed"
    assert "python -m adapters.local.model.kernels" in found.advice
    name = f"kernels--{MXFP4.replace('/', '--')}"
    (tmp_path / name / "snapshots" / "1").mkdir(parents=True)
    assert check_kernels() == Check("compiled kernels", "ok", f"{MXFP4} is in {tmp_path}")


def test_kernels_need_a_cache_that_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert check_kernels().status == "failed"


def test_no_hub_is_needed_for_what_is_here(hub: Answering, tmp_path: Path) -> None:
    remote: Any = {"backend": "sglang", "backend_url": ("http://a",), "model": MODEL}
    for settings in (Settings(), Settings(model=str(tmp_path)), Settings(**remote)):
        assert check_hub(settings).status == "ok"
    assert hub.asked == []


def test_one_engine_that_answers_is_enough(web: Answering) -> None:
    urls = (f"{web.url}/", f"http://127.0.0.1:{free_port()}")
    up, down = check_engines(Settings(backend="sglang", backend_url=urls))
    assert (up.status, down.status) == ("ok", "warning")
    assert "/health" in [path for path, _ in web.asked]
    web.status = 503
    first, second = check_engines(Settings(backend="sglang", backend_url=urls))
    assert (first.status, second.status) == ("failed", "failed")
    assert "503" in first.fact


def test_an_engine_that_wants_a_key_gets_it(web: Answering) -> None:
    web.key = "k"
    settings = Settings(backend="sglang", backend_url=(web.url,), backend_option=("api_key=k",))
    (check,) = check_engines(settings)
    assert check.status == "ok"


@pytest.mark.parametrize("status", [200, 503])
def test_the_password_of_an_engine_is_not_shown(web: Answering, status: int) -> None:
    web.status = status
    url = web.url.replace("//", "//bob:SECRET@")
    (check,) = check_engines(Settings(backend="sglang", backend_url=(url,)))
    assert (check.name, "SECRET" in repr(check)) == (f"engine {web.url}", False)


def test_a_proxy_is_not_asked_for_an_engine(
    web: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    (check,) = check_engines(Settings(backend="sglang", backend_url=(web.url,)))
    assert check.status == "ok"


def test_the_port() -> None:
    port = free_port()
    assert check_port(Settings(port=port)).status == "ok"
    with socket.create_server(("127.0.0.1", port)):
        taken = check_port(Settings(port=port))
    assert (taken.status, "in use" in taken.fact) == ("failed", True)


def test_a_host_that_is_none_is_not_listened_on() -> None:
    check = check_port(Settings(host="a..b", port=0))
    assert (check.status, check.fact) == ("failed", "cannot listen on a..b:0: this is no host name")


def test_an_address_that_others_reach_needs_a_key() -> None:
    assert check_port(Settings(host="0.0.0.0", port=0)).status == "failed"
    assert check_port(Settings(host="0.0.0.0", port=0, api_key=("k",))).status == "ok"
    assert check_port(Settings(host="0.0.0.0", port=0, allow_anonymous=True)).status == "ok"


def test_a_store_in_memory(tmp_path: Path) -> None:
    assert check_store(Settings(store="memory"), tmp_path / "store.db").status == "ok"


def test_a_file_that_will_be_made_is_not_made_yet(tmp_path: Path) -> None:
    file = tmp_path / "new/store.db"
    assert check_store(Settings(), file).status == "ok"
    assert not file.parent.exists()


def test_a_named_file_that_will_be_made(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    assert check_store(Settings(store=f"sqlite:///{file}"), tmp_path).status == "ok"
    assert not file.exists()


@pytest.mark.parametrize("folder", ["missing", "file", "a" * 300])
def test_the_folder_of_a_named_file_is_not_made(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check = check_store(Settings(store=f"sqlite:///{tmp_path}/{folder}/store.db"), tmp_path)
    assert (check.status, f"{tmp_path}/{folder}" in check.fact) == ("failed", True)


def test_a_uri_of_sqlite_is_left_to_it(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///file:{tmp_path}/store.db?uri=true")
    assert check_store(settings, tmp_path).status == "ok"


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_bytes(b"no database at all" * 100)
    check = check_store(Settings(store=f"sqlite:///{file}"), tmp_path)
    assert (check.status, str(file) in check.fact) == ("failed", True)


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert check_store(Settings(), tmp_path / "store.db").status == "failed"


def test_a_file_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.touch()
    assert check_store(Settings(), file).status == "ok"


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "store.db"
    file.touch()
    monkeypatch.setattr(os, "access", lambda path, _: path != file)
    check = check_store(Settings(), file)
    assert (check.status, check.fact) == ("failed", f"{file} cannot be written")


def test_a_default_file_whose_name_is_too_long(tmp_path: Path) -> None:
    check = check_store(Settings(), tmp_path / ("a" * 300) / "store.db")
    assert (check.status, check.fact.endswith(": File name too long")) == ("failed", True)


def test_a_file_of_a_newer_version(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as store:
        store.execute("CREATE TABLE alembic_version (version_num)")
        assert check_store(Settings(), file).status == "ok"
        store.execute("INSERT INTO alembic_version VALUES ('9999')")
        store.commit()
    check = check_store(Settings(), file)
    assert (check.status, "newer version" in check.fact) == ("failed", True)


def check_url(url: str) -> Check:
    return check_store(Settings(store=url), Path("unused"))


def test_a_database_server(postgres: Postgres) -> None:
    url = postgres.new_database()
    assert check_url(url).status == "ok"
    host = f"127.0.0.1:{postgres.port}"
    assert check_url(f"postgresql://test@/postgres?host=127.0.0.1:1,{host}").status == "ok"
    folder = f"{postgres.folder}&port={postgres.port}"
    assert check_url(f"postgresql://test@/postgres?host={folder}").status == "ok"


def test_a_database_that_does_not_exist(postgres: Postgres) -> None:
    check = check_url(postgres.new_database().replace("/postgres", "/other"))
    assert (check.status, '"other" does not exist' in check.fact) == ("failed", True)


def test_a_database_of_a_newer_version(postgres: Postgres) -> None:
    url = postgres.new_database()

    async def upgrade() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE alembic_version (version_num text)")
        await connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        await connection.close()

    asyncio.run(upgrade())
    check = check_url(url)
    assert (check.status, "newer version" in check.fact) == ("failed", True)


@pytest.mark.parametrize("user", ["u:SECRET@", ""])
def test_a_database_server_that_is_not_there(user: str) -> None:
    query = "" if user else "?user=u&password=SECRET"
    check = check_url(f"postgresql://{user}127.0.0.1:{free_port()}/d{query}")
    assert (check.status, "SECRET" in repr(check)) == ("failed", False)


def test_a_database_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        check = check_url(f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d")
    assert (check.status, check.fact.endswith(": TimeoutError")) == ("failed", True)
