"""Files of openai's SDK, against real server processes: their memory, and restarts."""

import signal
from pathlib import Path

import pytest
from openai import APIStatusError, OpenAI

from tests.clients.conftest import Start
from tests.forks import Fork

LARGE = 200 * 1024 * 1024
MORE_MEMORY = 64 * 1024 * 1024
"""What one large upload and download may cost beside the server's own memory."""


def peak_memory(process: Fork) -> int:
    """The most resident memory that a process has had, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def test_a_large_file_is_never_in_memory(start: Start, tmp_path: Path) -> None:
    store, folder = f"sqlite:///{tmp_path}/store.db", tmp_path / "files"
    process, url = start([], "--store", store, "--files", str(folder))
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(LARGE)
    with OpenAI(base_url=url, api_key="any") as client:
        client.files.create(file=("small", b"x"), purpose="user_data")
        before = peak_memory(process)
        with large.open("rb") as file:
            made = client.files.create(file=file, purpose="user_data")
        assert made.bytes == LARGE
        with client.files.with_streaming_response.content(made.id) as answer:
            assert sum(map(len, answer.iter_bytes())) == LARGE
        assert peak_memory(process) - before < MORE_MEMORY
        client.files.delete(made.id)
        assert len(list(folder.iterdir())) == 1


def test_files_outlive_a_killed_process(start: Start, tmp_path: Path) -> None:
    options = ("--store", f"sqlite:///{tmp_path}/store.db", "--files", str(tmp_path / "files"))
    process, url = start([], *options)
    with OpenAI(base_url=url, api_key="any") as client:
        made = client.files.create(file=("x.csv", b"1,2"), purpose="user_data")
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, url = start([], *options)
    with OpenAI(base_url=url, api_key="any") as client:
        assert [file.id for file in client.files.list()] == [made.id]
        assert client.files.content(made.id).read() == b"1,2"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_all_files_are_deleted_while_they_are_listed(
    start: Start, tmp_path: Path, store: str
) -> None:
    place = f"sqlite:///{tmp_path}/store.db" if store == "sqlite" else store
    _, url = start([], "--store", place)
    with OpenAI(base_url=url, api_key="any") as client:
        for _ in range(5):
            client.files.create(file=("x.csv", b"1,2"), purpose="user_data")
        for file in client.files.list(limit=2):
            client.files.delete(file.id)
        assert client.files.list().data == []


def test_with_a_store_in_memory_nothing_is_left(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process, url = start([], "--store", "memory", "--hosted-tools", "none")
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        client.files.create(file=("x.csv", b"1,2"), purpose="user_data")
        assert len(list(tmp_path.glob("gpt-oss-files-*/file-*"))) == 1
        with pytest.raises(APIStatusError, match="is turned off"):
            client.containers.create(name="x")
    process.send_signal(signal.SIGINT)
    process.wait()
    assert list(tmp_path.glob("gpt-oss-files-*")) == []
