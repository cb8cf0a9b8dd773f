"""Downloads from a hub that runs here, with the layout of gpt-oss's own repositories."""

import hashlib
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants

from adapters.download import download, offline_variable, why_no_room
from adapters.errors import BackendFailed
from tests.adapters import gpt_oss_layout

SHA = "1" * 40
FILES = {name: name.encode() for name in gpt_oss_layout.FILES} | {
    "config.json": b'{"model_type": "gpt_oss"}',
    gpt_oss_layout.SHARDS[0]: b"w" * 3_000_000,
    "original/model.safetensors": b"o" * 5_000_000,
    "metal/model.bin": b"m" * 5_000_000,
}


class Hub(http.server.ThreadingHTTPServer):
    """What `huggingface_hub` asks of huggingface.co for one repository."""

    status = 200
    broken = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: list[str] = []
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.server.tokens.add(self.headers.get("Authorization", ""))
        path = self.path.partition("?")[0]
        if self.server.status != 200:
            self._send(self.server.status, b"{}", with_body)
        elif path == "/api/models/org/model/revision/main":
            siblings = [{"rfilename": name} for name in FILES]
            body = {"id": "org/model", "sha": SHA, "siblings": siblings}
            self._send(200, json.dumps(body).encode(), with_body)
        elif path == f"/api/models/org/model/tree/{SHA}":
            self._send(200, json.dumps([_entry(*item) for item in FILES.items()]).encode(), True)
        elif path.startswith(f"/org/model/resolve/{SHA}/"):
            name = path.removeprefix(f"/org/model/resolve/{SHA}/")
            if with_body:
                self.server.sent.append(name)
            status = 500 if with_body and name == self.server.broken else 200
            self._send(status, FILES[name], with_body)
        else:
            self._send(404, b"{}", with_body)

    def _send(self, status: int, body: bytes, with_body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", SHA)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


def _entry(name: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": name, "size": len(content), "oid": oid}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Shown(list[tuple[str, float]]):
    """Progress that was reported."""

    def __call__(self, stage: str, fraction: float) -> None:
        self.append((stage, fraction))


def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "cache/models--org--model/snapshots" / SHA


def test_a_download_reports_its_size_and_its_progress(hub: Hub) -> None:
    shown = Shown()
    download("org/model", shown)
    assert {stage for stage, _ in shown} == {"downloading org/model, 3.0 MB"}
    fractions = [fraction for _, fraction in shown]
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert fractions == sorted(fractions)
    assert any(0 < fraction < 1 for fraction in fractions)


def test_a_download_that_was_begun_before_ends_with_its_whole_progress(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had arrived then is not counted again."""
    files = [SimpleNamespace(file_size=1000, will_download=True)]

    def snapshot_download(*_: object, dry_run: bool = False, **__: object) -> Any:
        return files if dry_run else "folder"

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    shown = Shown()
    download("org/model", shown)
    assert [fraction for _, fraction in shown] == [0.0, 1.0]


def test_what_is_missing_is_checked_before_it_is_downloaded(hub: Hub) -> None:
    def refuse(size: int) -> None:
        raise BackendFailed(f"{size} bytes are too many")

    with pytest.raises(BackendFailed, match=r"^300\d{4} bytes are too many"):
        download("org/model", Shown(), check=refuse)
    assert hub.sent == []
    download("org/model", Shown())
    download("org/model", Shown(), check=refuse)  # nothing is missing


def test_the_check_gets_the_size_of_all_files_though_some_are_cached(
    hub: Hub, tmp_path: Path
) -> None:
    sizes: list[int] = []
    download("org/model", Shown(), check=sizes.append)
    (snapshot(tmp_path) / gpt_oss_layout.SHARDS[1]).resolve().unlink()
    download("org/model", Shown(), check=sizes.append)
    assert sizes == [sum(len(FILES[name]) for name in gpt_oss_layout.READ_BY_ENGINES)] * 2


def test_a_token_is_sent_with_each_request(hub: Hub) -> None:
    download("org/model", Shown(), token="hf_secret")
    assert hub.tokens == {"Bearer hf_secret"}


def test_other_programs_formats_are_neither_downloaded_nor_counted(
    hub: Hub, tmp_path: Path
) -> None:
    download("org/model", Shown())
    files = {path.name for path in snapshot(tmp_path).rglob("*")}
    assert files == set(gpt_oss_layout.READ_BY_ENGINES)
    assert set(hub.sent) == set(gpt_oss_layout.READ_BY_ENGINES)


def test_what_is_in_the_cache_is_not_downloaded_again(hub: Hub) -> None:
    download("org/model", Shown())
    hub.sent.clear()
    shown = Shown()
    download("org/model", shown)
    assert (hub.sent, shown) == ([], [])


def test_a_folder_is_no_name_of_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.status = 500
    shown = Shown()
    download(str(tmp_path), shown)
    download("s3://bucket/a/model", shown)
    assert shown == []


def test_offline_nothing_is_asked(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    download("org/model", Shown())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.sent.clear()
    hub.tokens.clear()
    download("org/model", Shown())
    assert (hub.sent, hub.tokens) == ([], set())


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_a_model_that_the_cache_lacks_is_an_error_that_names_the_variable(
    hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    reason = rf"org/model is not in .*, and {name} forbids downloading it; unset {name}, or"
    with pytest.raises(BackendFailed, match=reason):
        download("org/model", Shown())
    assert hub.tokens == set()


def test_the_first_variable_that_is_set_decides_whether_the_hub_is_asked(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    assert offline_variable() is None


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_hub_that_refuses_is_quoted(hub: Hub, status: int) -> None:
    hub.status = status
    with pytest.raises(BackendFailed, match=rf"cannot download org/model: .*{status}"):
        download("org/model", Shown())


def test_a_repository_that_is_refused_now_may_be_in_the_cache(hub: Hub) -> None:
    download("org/model", Shown())
    hub.status = 401
    download("org/model", Shown())


def test_a_hub_that_is_down_is_left_to_the_engine_if_the_cache_has_the_model(
    hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    download("org/model", Shown())
    hub.status = 500
    download("org/model", Shown())
    assert "the hub does not list org/model" in caplog.text


def test_a_hub_that_is_down_is_an_error_if_the_cache_lacks_the_model(hub: Hub) -> None:
    hub.status = 500
    with pytest.raises(BackendFailed, match="hub cannot be reached, and the model is not in the"):
        download("org/model", Shown())


@pytest.mark.parametrize("path", ["/nonexistent/x", "./x", "../x", "~/x"])
def test_a_path_without_a_folder_is_no_name_of_the_hub(
    hub: Hub, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # beside a checkout there may be such a folder
    with pytest.raises(BackendFailed, match=f"there is no folder {path}; --model is a folder"):
        download(path, Shown())
    assert hub.tokens == set()


def test_a_path_that_cannot_be_read_is_named() -> None:
    path = "/" + "x" * 300
    with pytest.raises(BackendFailed, match=f"--model {path} cannot be read: File name too long"):
        download(path, Shown())


def test_no_bar_is_drawn_beside_the_progress(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    download("org/model", Shown())
    assert capsys.readouterr().err == ""


def test_a_download_that_breaks_is_reported(hub: Hub) -> None:
    hub.broken = "tokenizer.json"
    with pytest.raises(BackendFailed, match=r"cannot download org/model: .*500"):
        download("org/model", Shown())


def test_a_cache_that_cannot_be_read_is_named() -> None:
    cache = Path("/" + "x" * 300)
    assert why_no_room(1, cache) == f"cannot be stored in {cache}: File name too long"


def test_a_disk_without_room_is_named_with_the_sizes(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=500_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BackendFailed, match=r"needs 3\.0 MB .* has 0\.5 GB left: .*HF_HOME"):
        download("org/model", Shown())
    assert hub.sent == []
