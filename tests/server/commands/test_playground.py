"""The command `playground` as a process, in front of a server process."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.commands.main import main
from tests.forks import Fork, Forks

SLOW = {"completion": "<|channel|>final<|message|>" + "one two " * 5000, "delay_ms": 20}


@contextmanager
def running(forks: Forks, command: str, *options: str) -> Iterator[tuple[Fork, str]]:
    """The process and its address."""
    process = forks.start(command, "--port", "0", *options)
    try:
        yield process, process.stdout.readline().split()[-1].removesuffix("/playground")
    finally:
        process.kill()


@pytest.fixture(scope="module")
def server(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("script") / "script.jsonl"
    script.write_text(json.dumps(SLOW), encoding="utf-8")
    options = ["--backend", "scripted", "--script", str(script), "--store", "memory"]
    options += ["--drain-seconds", "0", "--hosted-tools", ""]
    with running(forks, "serve", *options) as (_, url):
        yield url


def begin(url: str) -> dict[str, Any]:
    return {"method": "POST", "url": f"{url}/v1/responses", "json": {"input": "a", "stream": True}}


def deltas(answer: httpx.Response) -> Iterator[str]:
    return (line for line in answer.iter_lines() if '"delta"' in line)


def admitted(server: str) -> int:
    return int(httpx.get(f"{server}/playground/load").json()["admitted"])


def test_an_answer_streams_and_ends_with_its_reader(forks: Forks, server: str) -> None:
    with running(forks, "playground", "--base-url", f"{server}/v1") as (_, url):
        assert httpx.get(f"{url}/playground").status_code == 200
        with httpx.stream(**begin(url), timeout=60) as answer:
            lines = deltas(answer)
            assert '"delta"' in next(lines)
            assert admitted(server) == 1
        while admitted(server):
            continue


def test_an_interrupt_ends_it_with_a_stream_open(forks: Forks, server: str) -> None:
    with (
        running(forks, "playground", "--base-url", f"{server}/v1") as (process, url),
        httpx.stream(**begin(url), timeout=60) as answer,
    ):
        lines = deltas(answer)
        next(lines)
        process.send_signal(signal.SIGINT)
        assert process.wait() in (0, 130)
    while admitted(server):
        continue


def test_a_server_that_ends_breaks_the_stream(forks: Forks, tmp_path: Path) -> None:
    """The page must not take half an answer for a whole one."""
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps(SLOW), encoding="utf-8")
    options = ("--backend", "scripted", "--script", str(script), "--hosted-tools", "")
    with (
        running(forks, "serve", *options) as (process, server),
        running(forks, "playground", "--base-url", f"{server}/v1") as (_, url),
        httpx.stream(**begin(url), timeout=60) as answer,
    ):
        lines = deltas(answer)
        next(lines)
        process.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
        assert httpx.get(f"{url}/v1/models").status_code == 503


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--base-url", "localhost:8000"], "expected the address of an API"),
        (["--base-url", "ftp://localhost/v1"], "expected the address of an API"),
        (["--base-url", "http://a:x/v1"], "expected the address of an API"),
        (["--base-url", "http://a:99999/v1"], "expected the address of an API"),
        (["--allowed-host", "https://a.example"], "--allowed-host: expected a name"),
        (["--base-url", "http://xn--/v1"], "expected the address of an API"),
        (["--base-url", "http://a:b@localhost/v1"], "keys go in the page"),
        (["--host", "0.0.0.0", "--port", "0"], "--allow-anonymous true"),
        (["--host", "a..b", "--allow-anonymous", "true"], "cannot listen on a..b:8080: "),
    ],
)
def test_what_cannot_be_shown_is_said(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["playground", *options]) == 1
    assert said in capsys.readouterr().err


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert main(["playground", "--port", port, "--host", "localhost"]) == 1
    assert f"cannot listen on localhost:{port}" in capsys.readouterr().err


def test_a_value_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(SystemExit) as refused:
        main(["playground", "--allow-anonymous", "maybe"])
    assert refused.value.code == 2
