"""What the benchmarks share, with real processes and sockets."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.library import figures, processes
from benchmarks.library.clients import (
    TEXT,
    Answer,
    RequestFailed,
    Usage,
    batch_scheduling,
    post,
    usage,
)
from benchmarks.library.processes import NotStarted, Process, free_port, running

# Figures


def test_the_ratio_is_the_median_of_the_pairs_ratios() -> None:
    assert figures.median_ratio([1, 10, 6], [2, 4, 3]) == 2.0


def test_figures_are_written_only_where_a_file_is_named(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    figures.add_option(parser)
    figures.write({"a": 1.5}, parser.parse_args([]).json)
    file = tmp_path / "figures.json"
    figures.write({"a": 1.5}, parser.parse_args(["--json", str(file)]).json)
    assert json.loads(file.read_text()) == {"a": 1.5}


def test_a_benchmark_runs_in_a_process_of_its_own() -> None:
    found = figures.measure("startup", ["--rounds", "1"])
    assert found["gpt-oss-server --help, s"] > 0


def test_a_benchmark_that_fails_is_named_with_its_output() -> None:
    with pytest.raises(
        figures.BenchmarkFailed, match=r"benchmarks\.sse --tokens many ended with 2"
    ):
        figures.measure("sse", ["--tokens", "many"])


# Clients

STREAM = b'HTTP/1.1 200 OK\r\n\r\ndata: {"a": 1}\n\ndata: {"usage": {"prompt_tokens": 3, '
STREAM += b'"completion_tokens": 7}}\n\ndata: [DONE]\n\n'


async def served(content: bytes, body: object) -> tuple[Answer, bytes]:
    """The client's answer from a server that writes `content`, and the request that came."""
    requests = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        requests.append(head + await reader.readexactly(length))
        writer.write(content)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return await post(port, "/v1/path", body), requests[0]


async def test_an_answer_is_read_to_its_end() -> None:
    answer, request = await served(STREAM, {"stream": True})
    assert answer.content == STREAM
    assert 0 < answer.first <= answer.seconds
    assert request.startswith(b"POST /v1/path HTTP/1.1\r\n")
    assert request.endswith(b'{"stream": true}')
    assert usage(answer) == Usage(3, 7)


def test_the_first_text_is_found_behind_chunks_without_text() -> None:
    chunks = [b'data: {"text":""}', b'data: {"text": ""}', b'data: {"text":" a"}', b'{"text": "b"}']
    assert [bool(TEXT.search(chunk)) for chunk in chunks] == [False, False, True, True]


async def test_an_answer_without_events_is_an_error_with_its_text() -> None:
    with pytest.raises(RequestFailed, match=r"/v1/path answered .*no such model"):
        await served(b"HTTP/1.1 404 Not Found\r\n\r\nno such model", b"{}")


def test_an_answer_without_usage_is_an_error() -> None:
    with pytest.raises(RequestFailed, match="no usage"):
        usage(Answer(b'data: {"usage": null}\n\n', 0.1, 0.2))


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="needs Linux")
def test_a_client_gives_way_only_while_it_measures() -> None:
    with batch_scheduling():
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


# Processes

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
sum(range(2_000_000))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(port)]
    with running(command, f"http://127.0.0.1:{port}/", tmp_path / "log") as process:
        yield process


needs_proc = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux")


@needs_proc
def test_a_process_is_measured(process: Process) -> None:
    assert process.cpu > 0
    assert process.memory > 1_000_000
    process.reset_peak()
    assert process.peak_memory >= process.memory > process.proportional_memory > 0


@needs_proc
def test_processes_that_it_starts_count(tmp_path: Path) -> None:
    """As do those in sessions of their own."""
    port = free_port()
    child = [sys.executable, "-c", "data = bytearray(64 << 20); input()"]
    program = "import subprocess, sys; subprocess.Popen(" + repr(child)
    program += ", stdin=subprocess.PIPE, start_new_session=True)" + SERVER
    command = [sys.executable, "-c", program, str(port)]
    with running(command, f"http://127.0.0.1:{port}/", tmp_path / "log") as process:
        limit = time.monotonic() + 60
        while process.memory < 64 << 20 and time.monotonic() < limit:
            time.sleep(0.05)
        assert process.memory >= 64 << 20


@needs_proc
def test_the_time_of_ended_threads_counts(tmp_path: Path) -> None:
    port = free_port()
    work = "import threading, time\ndef work():\n    while time.thread_time() < 1: pass\n"
    program = f"{work}one = threading.Thread(target=work)\none.start()\none.join()\n{SERVER}"
    command = [sys.executable, "-c", program, str(port)]
    with running(command, f"http://127.0.0.1:{port}/", tmp_path / "log") as process:
        assert process.cpu >= 1


@needs_proc
def test_an_ended_process_takes_nothing(process: Process) -> None:
    process.end()
    assert (process.cpu, process.memory) == (0, 0)


def test_a_server_that_ends_is_an_error_with_its_output(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no model here')"]
    url = f"http://127.0.0.1:{free_port()}/"
    with (
        pytest.raises(NotStarted, match="no model here"),
        running(command, url, tmp_path / "log"),
    ):
        raise AssertionError("it is not ready")


def test_a_stopped_process_runs_again_afterwards(tmp_path: Path) -> None:
    process = Process(["sleep", "60"], tmp_path / "log")

    def state() -> str:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    try:
        with process.stopped():
            wait_for(lambda: state() == "T")
        wait_for(lambda: state() == "S")
    finally:
        process.end()


def test_a_process_that_has_ended_leaves_no_other_one_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end between the search for the processes and the signal."""
    process = Process(["sleep", "60"], tmp_path / "log")
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(processes, "family", lambda pid: [pid, ended.pid])
    try:
        with process.stopped():
            pass
        state = Path(f"/proc/{process.pid}/stat")
        wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] != "T")
    finally:
        process.end()


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)
