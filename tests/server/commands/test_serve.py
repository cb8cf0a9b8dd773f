"""The server as a process: how it starts, what it prints, how it stops."""

import asyncio
import gc
import io
import json
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from sse_starlette.sse import AppStatus
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection, connect

from adapters.base import BackendInfo
from adapters.errors import BackendFailed, EngineDied
from harmony.vocab import VOCAB_SIZE
from server.app import create_app
from server.commands.failure import CommandFailed
from server.commands.listening import CannotListen, bind
from server.commands.main import INTERRUPTED
from server.commands.serve import (
    Progress,
    Server,
    _check_files,
    _listen,
    _open_sandbox,
    _start,
    serve,
)
from server.commands.stop_signals import StopSignals
from server.settings import Settings
from server.store.responses.memory import MemoryStore
from tests.forks import COMMAND, PATIENCE, Fork, Forks
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
WORDS = "one two three four five six seven eight nine ten"
ANSWER = f"<|channel|>final<|message|>{WORDS}<|return|>"
CHAT = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "A secret question"}],
    "stream": True,
}
SLOW = 100
NEVER = 600_000

MODULE = (sys.executable, "-m", "server")
SCRIPT = (str(Path(sys.executable).with_name("gpt-oss-server")),)


class Command(subprocess.Popen[str]):
    """A command as users start it, with the methods of a `Fork`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        super().__init__(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def end(self) -> tuple[int, str, str]:
        out, err = self.communicate(timeout=PATIENCE)
        return self.returncode, out, err

    def kill(self) -> None:
        super().kill()
        self.communicate()


class Process:
    """A server process; `url` is read from what it prints."""

    def __init__(self, process: Fork | Command) -> None:
        self._process = process

    def url(self) -> str:
        assert self._process.stdout is not None
        self.ready = self._process.stdout.readline()
        return self.ready.split()[-1]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """The exit status, and all of standard error."""
        status, out, err = self._process.end()
        assert out == ""
        return status, err


Start = Callable[..., Process]


@pytest.fixture
def start(fork: Callable[..., Fork]) -> Iterator[Start]:
    """Starts servers: as forks, or as a command that begins with `program`."""
    commands: list[Command] = []

    def run(*arguments: str, program: Sequence[str] = (), folder: Path = ROOT) -> Process:
        if not program:
            return Process(fork("serve", *arguments))
        commands.append(Command([*program, "serve", *arguments], folder))
        return Process(commands[-1])

    yield run
    for command in commands:
        command.kill()


@pytest.fixture
def scripted(start: Start, tmp_path: Path) -> Start:
    """Starts a server whose engine says ANSWER, a token every `delay_ms`.

    It has no hosted tools unless a test wants them: the interpreter takes longer than the server.
    """

    def run(
        *arguments: str,
        delay_ms: int = 0,
        host: str = "127.0.0.1",
        tools: Sequence[str] = ("--hosted-tools", "none"),
        **options: Any,
    ) -> Process:
        script = tmp_path / "script.jsonl"
        line = {"prompt_contains": "question", "completion": ANSWER, "delay_ms": delay_ms}
        script.write_text(json.dumps(line))
        where = ("--host", host, "--port", "0")
        script_options = ("--backend", "scripted", "--script", str(script))
        return start(*script_options, *where, *tools, *arguments, **options)

    return run


class Stream:
    """A streamed chat completion whose first event has come."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(timeout=PATIENCE)
        self._response = self._client.send(
            self._client.build_request("POST", f"{url}/v1/chat/completions", json=CHAT),
            stream=True,
        )
        self._lines = self._response.iter_lines()
        self.begun = next(self._lines)

    def rest(self) -> list[str]:
        lines = [self.begun, *filter(None, self._lines)]
        self._client.close()
        return [line.removeprefix("data: ") for line in lines]


def await_open(port: int) -> None:
    """Return when connections are accepted."""
    for _ in range(100 * PATIENCE):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
    raise AssertionError("nobody listens")


def await_closed(url: str) -> None:
    """Return when no new connection is accepted."""
    with httpx.Client(limits=httpx.Limits(max_keepalive_connections=0)) as client:
        for _ in range(10_000):
            try:
                client.get(f"{url}/version")
            except httpx.TransportError:
                return
    raise AssertionError("the server still answers")


def text(events: list[str]) -> str:
    chunks: list[dict[str, Any]] = [json.loads(event) for event in events if event != "[DONE]"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk.get("choices", ())]
    return "".join(delta.get("content") or "" for delta in deltas)


# Starting


def test_the_printed_address_answers_at_once(scripted: Start) -> None:
    names = ("--served-model-name", "a", "--served-model-name", "b")
    process = scripted(*names, program=MODULE, tools=())
    url = process.url()
    assert process.ready == f"Serving a, b on {url}\n"
    models = httpx.get(f"{url}/v1/models").json()
    assert [model["id"] for model in models["data"]] == ["a", "b"]
    process.send(signal.SIGINT)
    assert process.end()[0] == 0


UNREAD = f"import os; read, write = os.pipe(); os.dup2(write, 1); os.close(read); {COMMAND}"


@pytest.mark.parametrize("command", ["serve", "playground"])
def test_a_server_whose_output_nobody_reads_serves_all_the_same(
    fork: Callable[..., Fork], tmp_path: Path, command: str
) -> None:
    port, script = free_port(), tmp_path / "script.jsonl"
    script.touch()
    options = ["--backend", "scripted", "--script", str(script), "--hosted-tools", "none"]
    arguments = [command, "--port", str(port), *(options if command == "serve" else [])]
    process = fork(*arguments, program=UNREAD)
    await_open(port)
    process.send_signal(signal.SIGTERM)
    assert "Traceback" not in process.end()[2]


def test_the_open_connections_are_shown(scripted: Start) -> None:
    process = scripted()
    scraped = httpx.get(f"{process.url()}/metrics").text
    assert "\ngpt_oss_open_connections 1.0\n" in scraped


async def close_codes_of_unfinished_messages(address: str, count: int) -> list[int]:
    """Send most of a message of 1 MB on each of `count` WebSockets, until one is closed."""
    most_of_a_message = b"\x82\xff" + (1_000_000).to_bytes(8) + bytes(4) + bytes(990_000)
    # Nothing can be sent within a message, neither a ping nor the end of the connection.
    unanswered = partial(connect_async, address, ping_interval=None, close_timeout=0)
    async with AsyncExitStack() as opened:
        several = [await opened.enter_async_context(unanswered()) for _ in range(count)]
        for each in several:
            each.transport.write(most_of_a_message)
        ends = [asyncio.create_task(each.wait_closed()) for each in several]
        await asyncio.wait(ends, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        return [each.close_code for each in several if each.close_code is not None]


def test_parts_of_messages_take_memory_of_bodies_and_a_refusal_is_counted(scripted: Start) -> None:
    url = scripted("--max-body-bytes", "1000000", "--max-body-memory", "3000000").url()
    address = f"ws{url.removeprefix('http')}/v1/responses"
    codes = asyncio.run(close_codes_of_unfinished_messages(address, 4))
    assert codes == [CloseCode.TRY_AGAIN_LATER]
    scraped = httpx.get(f"{url}/metrics").text
    assert '\ngpt_oss_http_errors_total{code="body_memory_exhausted"} 1.0\n' in scraped


def test_the_options_of_the_sandbox_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*positional: Any, **named: Any) -> Any:
        return positional, named

    for kind in ("ProcessSandbox", "RemoteSandbox"):
        monkeypatch.setattr(f"server.tools.python.opening.{kind}", made)
    local: Any = _open_sandbox(Settings(python_folder=Path("/sessions"), python_sessions=3))
    assert local == ((Path("/sessions"),), {"most": 3})
    address = "http://sandbox:1"
    remote: Any = _open_sandbox(Settings(python_sandbox=address, python_sandbox_key="k"))
    assert remote == ((address, "k"), {})


@pytest.mark.parametrize(
    ("playground", "features", "expected"),
    [
        (True, (), ["engine", "vocabulary"]),
        (False, ("grammar",), ["engine", "vocabulary"]),
        (False, ("logprobs",), ["engine"]),
    ],
)
async def test_what_masks_need_is_there_before_requests_come(
    monkeypatch: pytest.MonkeyPatch,
    playground: bool,
    features: tuple[str, ...],
    expected: list[str],
) -> None:
    steps: list[str] = []

    class Engine:
        info = BackendInfo("e", "m", 8, 8, frozenset(features))

        async def start(self) -> None:
            steps.append("engine")

    monkeypatch.setattr("server.commands.serve.mask_tokenizer", lambda: steps.append("vocabulary"))
    engine: Any = Engine()
    sandbox: Any = None
    await _start(Settings(playground=playground), engine, sandbox)
    assert steps == expected


STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^a+$"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        (SCRIPT, ("server", "harmony", "adapters", "tools", "json", "llguidance")),
        # With -m, Python looks for `server` itself in the working directory.
        (MODULE, ("harmony", "adapters", "tools", "llguidance")),
        ((sys.executable, "-P", "-m", "server"), ("server", "harmony", "tools", "llguidance")),
    ],
    ids=["script", "module", "module with -P"],
)
def test_nothing_is_imported_from_the_folder_that_it_runs_in(
    scripted: Start, tmp_path: Path, program: Sequence[str], modules: Sequence[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in modules:
        imported = f"open({str(tmp_path / 'imported')!r}, 'a').write({name + ' '!r})\n"
        (folder / f"{name}.py").write_text(f"{imported}raise ImportError({name!r})\n")
    process = scripted(program=program, folder=folder, tools=())
    form = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": STRICT}}
    body = {**CHAT, "stream": False, "response_format": form}
    answer = httpx.post(f"{process.url()}/v1/chat/completions", json=body, timeout=PATIENCE)
    assert not (tmp_path / "imported").exists()
    assert answer.status_code == 200, answer.text


def test_a_port_in_use_is_one_line(scripted: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, err = scripted("--port", str(port)).end()
    assert status == 1
    assert err == (
        f"gpt-oss-server serve: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    )


def test_a_port_that_another_took_while_the_model_loaded_is_one_line(
    start_engine: Callable[[str], Coroutine[Any, Any, Any]],
) -> None:
    settings = Settings()
    with asyncio.Runner() as runner, bind("127.0.0.1", 0) as ours:
        engine = runner.run(start_engine(ANSWER))
        port = ours.getsockname()[1]
        with bind("127.0.0.1", port) as other:
            other.listen()
            app = create_app(settings, engine)
            with pytest.raises(CannotListen, match=f":{port}: Address already in use"):
                _listen(runner, app, ours, StopSignals())


@pytest.mark.parametrize("host", ["256.0.0.1", "a..b"])
def test_a_host_that_is_none_is_one_line(start: Start, host: str) -> None:
    status, err = start("--host", host).end()
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith(f"gpt-oss-server serve: cannot listen on {host}:8000: ")


def test_an_address_that_others_reach_needs_a_key_or_leave(scripted: Start) -> None:
    status, err = scripted(host="0.0.0.0").end()
    assert (status, err.count("\n")) == (1, 1)
    assert "without a key, anybody who reaches 0.0.0.0 could use this server" in err
    assert "--api-key-file" in err
    assert "--allow-anonymous true" in err


@pytest.mark.parametrize("options", [("--api-key", "k"), ("--allow-anonymous", "true")])
def test_with_either_it_is_served(scripted: Start, options: tuple[str, ...]) -> None:
    port = httpx.URL(scripted(*options, host="0.0.0.0").url()).port
    assert httpx.get(f"http://127.0.0.1:{port}/version").status_code == 200


def test_an_engine_that_cannot_start_is_one_line(start: Start) -> None:
    arguments = ("--backend", "scripted", "--script", "/nowhere/script", "--port", "0")
    status, err = start(*arguments).end()
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("gpt-oss-server serve: /nowhere/script: ")


def test_an_unknown_engine_is_one_line(start: Start) -> None:
    status, err = start("--backend", "steam", "--port", "0", "--model", "m").end()
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("gpt-oss-server serve: unknown backend 'steam'; known are ")


# Stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_idle_server_stops_at_a_signal(scripted: Start, number: signal.Signals) -> None:
    process = scripted("--log-level", "warning", tools=())
    process.url()
    process.send(number)
    assert process.end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_running_answer_is_finished_first(scripted: Start, number: signal.Signals) -> None:
    process = scripted(delay_ms=SLOW)
    stream = Stream(process.url())
    process.send(number)
    events = stream.rest()
    assert text(events) == WORDS
    assert events[-1] == "[DONE]"
    status, err = process.end()
    assert status == 0
    assert "Traceback" not in err
    assert "answers to finish first: 1; Ctrl-C ends them" in err


def test_while_it_drains_no_one_else_is_let_in(scripted: Start) -> None:
    process = scripted(delay_ms=SLOW)
    url = process.url()
    stream = Stream(url)
    process.send(signal.SIGINT)
    await_closed(url)
    assert text(stream.rest()) == WORDS
    assert process.end()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_running_answers(scripted: Start, number: signal.Signals) -> None:
    process = scripted(delay_ms=NEVER)
    url = process.url()
    stream = Stream(url)
    process.send(number)
    await_closed(url)
    process.send(number)
    assert stream.rest()[-1] == "[DONE]"
    status, err = process.end()
    assert status == 0
    assert "Traceback" not in err


def test_after_the_drain_running_answers_are_ended(scripted: Start) -> None:
    process = scripted("--drain-seconds", "0.2", delay_ms=NEVER)
    stream = Stream(process.url())
    process.send(signal.SIGINT)
    assert stream.rest()[-1] == "[DONE]"
    status, err = process.end()
    assert status == 0
    assert "Traceback" not in err


def background(url: str) -> str:
    """Start an answer that nobody follows; its id."""
    body = {"input": "A question", "background": True}
    answer = httpx.post(f"{url}/v1/responses", json=body, timeout=PATIENCE)
    assert answer.json()["status"] == "queued"
    return str(answer.json()["id"])


def retrieved(process: Process, response_id: str) -> dict[str, Any]:
    answer = httpx.get(f"{process.url()}/v1/responses/{response_id}", timeout=PATIENCE)
    return dict(answer.json())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_answer_that_nobody_follows_is_finished_first(
    scripted: Start, tmp_path: Path, number: signal.Signals
) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/store.db")
    process = scripted(*store, delay_ms=SLOW)
    response_id = background(process.url())
    process.send(number)
    status, err = process.end()
    assert status == 0
    assert "Traceback" not in err
    response = retrieved(scripted(*store), response_id)
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == WORDS


@pytest.mark.parametrize("signals", [1, 2])
def test_an_answer_that_nobody_follows_is_ended_with_the_drain(
    scripted: Start, tmp_path: Path, signals: int
) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/store.db")
    drain = "0" if signals == 1 else "3600"
    process = scripted(*store, "--drain-seconds", drain, delay_ms=NEVER)
    url = process.url()
    response_id = background(url)
    process.send(signal.SIGTERM)
    if signals == 2:
        await_closed(url)
        process.send(signal.SIGTERM)
    assert process.end()[0] == 0
    assert retrieved(scripted(*store), response_id)["status"] == "failed"


def begin_turn(url: str) -> ClientConnection:
    """A WebSocket on which a turn is in progress."""
    socket = connect(f"ws{url.removeprefix('http')}/v1/responses")
    socket.send(json.dumps({"type": "response.create", "input": "A secret question"}))
    socket.recv(PATIENCE)
    return socket


def rest_of_turn(socket: ClientConnection) -> tuple[dict[str, Any], int | None]:
    """The turn's last event, and the code that the server closes the connection with."""
    event: dict[str, Any] = {}
    try:
        while True:
            event = json.loads(socket.recv(PATIENCE))
    except ConnectionClosed as closed:
        return event, closed.rcvd.code if closed.rcvd else None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_running_turn_of_a_websocket_is_finished_first(
    scripted: Start, number: signal.Signals
) -> None:
    process = scripted(delay_ms=SLOW)
    url = process.url()
    socket = begin_turn(url)
    process.send(number)
    await_closed(url)
    event, code = rest_of_turn(socket)
    assert event["type"] == "response.completed"
    assert event["response"]["output"][0]["content"][0]["text"] == WORDS
    assert code == 1001
    status, err = process.end()
    assert status == 0
    assert "Traceback" not in err
    assert "answers to finish first: 1; Ctrl-C ends them" in err


@pytest.mark.parametrize("signals", [1, 2])
def test_after_the_drain_or_a_second_signal_a_running_turn_is_ended(
    scripted: Start, signals: int
) -> None:
    drain = "0.2" if signals == 1 else "3600"
    process = scripted("--drain-seconds", drain, delay_ms=NEVER)
    url = process.url()
    socket = begin_turn(url)
    idle = connect(f"ws{url.removeprefix('http')}/v1/responses")
    process.send(signal.SIGINT)
    assert rest_of_turn(idle) == ({}, 1001)
    if signals == 2:
        process.send(signal.SIGINT)
    event, code = rest_of_turn(socket)
    assert (event["response"]["status"], code) == ("cancelled", 1001)
    status, err = process.end()
    assert status == 0
    assert "Traceback" not in err


def test_a_client_that_sends_half_a_request_cannot_keep_the_server(scripted: Start) -> None:
    process = scripted("--drain-seconds", "0", "--log-level", "error")
    url = httpx.URL(process.url())
    with socket.create_connection((url.host, url.port)) as half:
        half.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        httpx.get(url.join("/version"))
        process.send(signal.SIGINT)
        status, err = process.end()
    assert status == 0
    assert "Traceback" not in err


# What it says


def test_variables_that_are_no_options_are_named(
    scripted: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPT_OSS_API_KEYS", "secret")
    process = scripted()
    process.url()
    process.send(signal.SIGINT)
    _, err = process.end()
    warnings = [line for line in err.splitlines() if " WARNING " in line]
    (line,) = [line for line in warnings if "are ignored" in line]
    assert line.endswith("these variables are no options, and are ignored: GPT_OSS_API_KEYS")


@pytest.mark.parametrize(("options", "said"), [((), True), (("--api-key", "k"), False)])
def test_that_no_key_is_required_is_said(
    scripted: Start, options: tuple[str, ...], said: bool
) -> None:
    process = scripted(*options)
    process.url()
    process.send(signal.SIGINT)
    assert ("no API key is required" in process.end()[1]) is said


def test_logs_contain_each_request_once_and_no_content(scripted: Start) -> None:
    process = scripted("--log-level", "debug", "--api-key", "hunter2")
    url = process.url()
    key = {"authorization": "Bearer hunter2"}
    with httpx.Client(base_url=url, headers=key) as client:
        for stream in (True, False):
            client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
            body = {"input": "A secret question", "instructions": "hush", "stream": stream}
            client.post("/v1/responses", json=body)
            no_line = {**CHAT, "messages": [{"role": "user", "content": "A secret"}]}
            client.post("/v1/chat/completions", json={**no_line, "stream": stream})
        client.get("/v1/models?key=hunter2")
    process.send(signal.SIGINT)
    status, err = process.end()
    assert status == 0
    lines = err.splitlines()
    assert sum("POST /v1/chat/completions" in line for line in lines) == 4
    assert sum("POST /v1/responses" in line for line in lines) == 2
    assert sum("GET /v1/models" in line for line in lines) == 1
    for secret in ("secret", "hush", "seven", "hunter"):
        assert secret not in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress()
    for percent in range(0, 101, 5):
        progress("load", percent / 100)
    progress("warm up", 1.0)
    return stream.getvalue()


def test_progress_is_a_line_that_is_rewritten_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = shown(Terminal(), monkeypatch).split("\n")
    assert [line.split("\x1b[K")[-1] for line in lines] == ["load: 100%", "warm up: 100%", ""]


@pytest.mark.parametrize("level", ["debug", "info"])
def test_urls_that_the_server_requests_are_not_logged(
    fork: Callable[..., Fork], level: str
) -> None:
    """The query of a search is in one, and may be what a user asked for."""
    program = (
        "import sys, httpx\n"
        "from server.commands.serve import _log_to_stderr\n"
        "_log_to_stderr(sys.argv[1].upper())\n"
        "transport = httpx.MockTransport(lambda request: httpx.Response(200))\n"
        "httpx.Client(transport=transport).get('http://a.example/?q=secret')\n"
    )
    status, _, err = fork(level, program=program).end()
    assert status == 0
    assert "secret" not in err


def test_other_packages_log_each_warning_once_and_no_details(fork: Callable[..., Fork]) -> None:
    program = (
        "import logging, huggingface_hub.utils.logging as hub\n"
        "from server.commands.serve import _log_to_stderr\n"
        "_log_to_stderr('INFO')\n"
        "hub.get_logger('huggingface_hub.x').warning('no hub')\n"
        "logging.getLogger('ContinuousBatchingLogger').info('a detail')\n"
    )
    status, _, err = fork(program=program).end()
    assert status == 0
    assert err.count("no hub") == 1
    assert "a detail" not in err


@pytest.mark.parametrize("name", ["alembic", "ContinuousBatchingLogger", "httpx", "torch"])
def test_warnings_of_other_packages_are_left_out_where_only_errors_are_logged(
    fork: Callable[..., Fork], name: str
) -> None:
    program = (
        "import logging, sys\n"
        "from server.commands.serve import _log_to_stderr\n"
        "_log_to_stderr('ERROR')\n"
        "logging.getLogger(sys.argv[1]).warning('a warning')\n"
        "logging.getLogger(sys.argv[1]).error('an error')\n"
    )
    status, _, err = fork(name, program=program).end()
    assert (status, "a warning" in err, "an error" in err) == (0, False, True)


def test_progress_is_a_few_lines_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO(), monkeypatch).split("\n") == [
        "load: 0%",
        "load: 25%",
        "load: 50%",
        "load: 75%",
        "load: 100%",
        "warm up: 100%",
        "",
    ]


class Mortal:
    """An engine that is dead by the second look; the first finds it merely unwell."""

    info = BackendInfo("mortal", "m", 100, VOCAB_SIZE, frozenset())

    def __init__(self) -> None:
        self.looks = 0

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def check(self) -> None:
        self.looks += 1
        if self.looks == 1:
            raise BackendFailed("unwell")
        raise EngineDied("the engine died")


@pytest.fixture
def restored() -> Iterator[None]:
    """What `serve` changes in its process is as before after the test."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    threshold = gc.get_threshold()
    drains = AppStatus.enable_automatic_graceful_drain
    yield
    AppStatus.enable_automatic_graceful_drain = drains
    gc.set_threshold(*threshold)
    gc.unfreeze()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("restored")
def test_a_process_ends_with_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Mortal()
    monkeypatch.setattr("server.commands.serve.open_backend", lambda *_: engine)
    monkeypatch.setattr("server.commands.serve.open_store", lambda _: MemoryStore())
    for name in ("commands.serve._log_to_stderr", "commands.serve.reduce_garbage_collections"):
        monkeypatch.setattr(f"server.{name}", lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for name in ("WATCH_SECONDS", "DEAD_SECONDS"):
        monkeypatch.setattr(f"server.commands.serve.{name}", 0.01)
    with pytest.raises(CommandFailed, match="the engine died"):
        serve(Settings(port=0))
    assert engine.looks == 2


@pytest.fixture
async def idle(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with a dead engine, which has its headers set once and then never again."""
    monkeypatch.setattr("server.commands.serve.TICK_SECONDS", NEVER)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nobody asks")

    config = uvicorn.Config(app, log_config=None)
    config.load()
    engine = Mortal()
    engine.looks = 1
    context: Any = SimpleNamespace(gateway=SimpleNamespace(backend=engine))
    return Server(config, context, asyncio.get_running_loop())


@pytest.fixture
def hang_up() -> Iterator[None]:
    """The handler of SIGHUP is as before after the test."""
    handler = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, handler)


@pytest.mark.usefixtures("hang_up")
async def test_a_signal_is_not_left_for_the_next_tick(idle: Server) -> None:
    waiting = asyncio.create_task(idle.main_loop())
    await asyncio.sleep(0)
    idle.handle_exit(signal.SIGINT, None)
    await asyncio.wait_for(waiting, PATIENCE)


@pytest.mark.usefixtures("hang_up")
async def test_a_terminal_that_closes_while_answers_finish_does_not_end_them(idle: Server) -> None:
    idle.handle_exit(signal.SIGINT, None)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


async def test_the_end_of_the_engine_is_not_left_for_the_next_tick(
    idle: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WATCH_SECONDS", "DEAD_SECONDS"):
        monkeypatch.setattr(f"server.commands.serve.{name}", 0.01)
    both = asyncio.gather(idle.main_loop(), idle._end_with_the_engine())
    await asyncio.wait_for(both, PATIENCE)


async def test_each_tick_sets_the_date(idle: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.commands.serve.TICK_SECONDS", 0.001)
    recorded: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    class State(uvicorn.server.ServerState):
        def __setattr__(self, name: str, value: Any) -> None:
            recorded.put_nowait((name, value))

    idle.server_state = State()
    while not recorded.empty():
        recorded.get_nowait()
    waiting = asyncio.create_task(idle.main_loop())
    for _ in range(2):
        name, headers = await asyncio.wait_for(recorded.get(), PATIENCE)
        assert name == "default_headers"
        assert b"date" in dict(headers)
    waiting.cancel()


ENDLESS = """
import signal, sys, threading
from adapters.local import backend
from server.commands.main import main

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells start background jobs

def load(*_):
    print("loading", flush=True)
    threading.Event().wait()

backend.load = load
sys.exit(main(["serve", "--model", ".", "--port", "0"]))
"""


@pytest.fixture(scope="module")
def torch_forks() -> Iterator[Forks]:
    opened = Forks("adapters.local.opening", "server.commands.serve", "server.store.responses.sql")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 0), (signal.SIGHUP, 0)],
)
def test_loading_can_be_interrupted(
    torch_forks: Forks, number: signal.Signals, expected: int
) -> None:
    process = torch_forks.start(program=ENDLESS)
    try:
        assert process.stdout.readline() == "loading\n"
        process.send_signal(number)
        assert process.end() == (expected, "", "")
    finally:
        process.kill()


def test_a_server_that_is_stopped_while_it_loads_a_model_does_not_abort() -> None:
    """The thread that loads is in torch's code then, where it cannot be ended."""
    process = Command([*MODULE, "serve", "--store", "memory", "--port", "0"], ROOT)
    try:
        assert process.stderr is not None
        assert any("loading weights" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert process.end()[0] == 0
    finally:
        process.kill()


LOST = """
import signal, sys
from server.commands import serve
from server.commands.main import main

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def lose(function):
    def run(*arguments, **options):
        Finalized()
        return function(*arguments, **options)
    return run

setattr(serve, sys.argv[1], lose(getattr(serve, sys.argv[1])))
sys.exit(main(["serve", "--port", "0", "--store", "memory", *sys.argv[2:]]))
"""


@pytest.mark.parametrize("name", ["open_backend", "create_app"])
def test_a_signal_whose_interrupt_is_lost_ends_the_server_all_the_same(
    name: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"prompt_contains": None, "completion": ANSWER}))
    options = ["--backend", "scripted", "--script", str(script)]
    process = Command([sys.executable, "-c", LOST, name, *options], ROOT)
    try:
        status, out, err = process.end()
    finally:
        process.kill()
    assert (status, out) == (0, "")
    assert "Exception ignored in: <function Finalized.__del__" in err


@pytest.mark.usefixtures("restored")
def test_the_store_is_closed_though_the_engine_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck:
        async def start(self) -> None:
            return

        async def stop(self) -> None:
            raise BackendFailed("stuck")

    class Watched(MemoryStore):
        async def stop(self) -> None:
            stopped.append(self)

    stopped: list[MemoryStore] = []
    monkeypatch.setattr("server.commands.serve.open_backend", lambda *_: Stuck())
    monkeypatch.setattr("server.commands.serve.open_store", lambda _: Watched())
    for name in ("_log_to_stderr", "create_app", "_listen"):
        monkeypatch.setattr(f"server.commands.serve.{name}", lambda *_, **__: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(CommandFailed, match="stuck"):
        serve(Settings(port=0))
    assert len(stopped) == 1


def test_a_damaged_store_is_reported_with_advice(scripted: Start, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    store.write_bytes(b"no database" * 1000)
    status, log = scripted("--store", f"sqlite:///{store}").end()
    assert status == 1
    *_, last = log.splitlines()
    assert last.startswith(f"gpt-oss-server serve: cannot open the store: the file {store} is")
    assert "restore a backup" in last


def test_a_store_that_cannot_be_opened_is_one_line(scripted: Start, tmp_path: Path) -> None:
    status, log = scripted("--store", f"sqlite:///{tmp_path}").end()
    assert status == 1
    last = log.splitlines()[-1]
    assert last == "gpt-oss-server serve: cannot open the store: unable to open database file"


def test_a_folder_of_files_that_cannot_be_made_is_one_line(scripted: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file/folder"
    status, log = scripted("--files", str(folder)).end()
    assert (status, log.splitlines()[-1]) == (
        1,
        f"gpt-oss-server serve: cannot store files in {folder}: Not a directory; name another "
        "folder with --files",
    )


def test_a_default_folder_of_files_that_cannot_be_made_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gpt-oss-server").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    _check_files(Settings())
    assert "uploads are refused" in caplog.text


def test_a_store_of_a_newer_version_is_one_line(scripted: Start, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        store.execute("CREATE TABLE alembic_version (version_num)")
        store.execute("INSERT INTO alembic_version VALUES ('9999')")
        store.commit()
    status, log = scripted("--store", f"sqlite:///{tmp_path}/store.db").end()
    assert status == 1
    last = log.splitlines()[-1]
    assert last.startswith("gpt-oss-server serve: the store was made by a newer version")


@pytest.mark.parametrize("options", [(), ("--search", "brave")])
def test_a_browser_without_a_provider_says_what_it_searches(
    scripted: Start, options: tuple[str, ...]
) -> None:
    server = scripted("--log-level", "info", *options, tools=("--hosted-tools", "browser"))
    server.url()
    server.send(signal.SIGTERM)
    _, log = server.end()
    assert "the hosted tool browser is o" in log
    assert ("searches this documentation" in log) == (not options)
