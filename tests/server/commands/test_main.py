import io
import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAIError

from server.commands import chat, serve
from server.commands.failure import CommandFailed
from server.commands.main import main
from server.commands.option_help import GROUPS
from server.settings import Settings

ROOT = Path(__file__).parents[3]
ANSWER = "<|channel|>final<|message|>Hello<|return|>"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of each call of `serve`, which starts no server."""
    settings: list[Settings] = []
    monkeypatch.setattr(serve, "serve", settings.append)
    return settings


def test_the_modules_main_is_the_command_line() -> None:
    # It ends the process at once, so it needs one of its own.
    command = [sys.executable, "-m", "server", "parse", "/nowhere"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("gpt-oss-server parse: ")


def ended_by(*arguments: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, whose standard streams `streams` replaces."""
    command = [sys.executable, "-m", "server", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    options: dict[str, Any] = {"cwd": ROOT, "env": environment, "text": True}
    return subprocess.run(command, **options, stderr=subprocess.PIPE, **streams)


def ended_unread(*arguments: str) -> tuple[int, str]:
    """The exit status and the errors of a command whose output is a pipe that nobody reads."""
    reads, writes = os.pipe()
    os.close(reads)
    ended = ended_by(*arguments, stdout=writes)
    os.close(writes)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("characters", [2, 20_000])
@pytest.mark.parametrize("command", ["render", "parse"])
def test_output_that_nobody_reads_is_no_error(
    tmp_path: Path, command: str, characters: int
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"input": "a " * characters}))
    assert ended_unread(command, str(file)) == (141, "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["doctor"], ["chat", "--model", "m"]]
)
def test_no_command_fails_where_nobody_reads_its_output(arguments: list[str]) -> None:
    assert ended_unread(*arguments) == (141, "")


@pytest.mark.parametrize(
    ("closed", "arguments", "status", "error"),
    [
        ("1", ["parse", "/dev/null"], 0, ""),
        ("0", ["render", "-"], 1, "gpt-oss-server render: there is no standard input\n"),
        ("0", ["chat"], 1, "gpt-oss-server chat: there is no standard input\n"),
    ],
)
def test_standard_streams_may_be_closed(
    closed: str, arguments: list[str], status: int, error: str
) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}<&-', "sh", sys.executable, "-m", "server"]
    ended = subprocess.run(
        [*shell, *arguments], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert (ended.returncode, ended.stderr) == (status, error)


def test_ctrl_c_while_options_are_imported_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("server.commands.main._add_settings", interrupted)
    assert main(["serve"]) == 130


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can make process namespaces"
)
def test_the_first_process_of_a_container_ends_when_it_is_told_to() -> None:
    program = (
        "import signal, sys; from server import __main__; from server.commands import main;"
        "main.main = lambda: signal.raise_signal(signal.SIGTERM); sys.exit(__main__.main())"
    )
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", program]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_on_windows_one_sentence_names_the_supported_systems(command: str) -> None:
    program = (
        "import sys; sys.platform = 'win32'; from server.__main__ import main; sys.exit(main())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, command], cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "gpt-oss-server runs on Linux and macOS; on Windows, run it in WSL.\n"


# serve


def test_every_option_is_a_flag(served: list[Settings]) -> None:
    flags = {
        "--model": "m",
        "--backend": "plug-in",
        "--host": "::1",
        "--port": "0",
        "--raw-reasoning": "hide",
        "--cors-origin": "https://a.example",
        "--max-running": "2",
        "--max-waiting": "3",
        "--max-body-bytes": "4",
        "--max-connections": "6",
        "--max-connections-per-address": "7",
        "--limit-concurrency": "8",
        "--allow-anonymous": "true",
        "--drain-seconds": "5",
        "--log-level": "debug",
    }
    several = [
        "--served-model-name",
        "--backend-option",
        "--api-key",
        "--allowed-host",
    ]
    arguments = [part for pair in flags.items() for part in pair]
    arguments += [part for flag in several for part in (flag, "a=1", flag, "b=2,3")]
    assert main(["serve", *arguments]) == 0
    (settings,) = served
    assert settings == Settings(
        model="m",
        served_model_name=("a=1", "b=2,3"),
        backend="plug-in",
        backend_option=("a=1", "b=2,3"),
        host="::1",
        port=0,
        api_key=("a=1", "b=2,3"),
        allowed_host=("a=1", "b=2,3"),
        allow_anonymous=True,
        cors_origin=("https://a.example",),
        raw_reasoning="hide",
        max_running=2,
        max_waiting=3,
        max_body_bytes=4,
        max_connections=6,
        max_connections_per_address=7,
        limit_concurrency=8,
        drain_seconds=5,
        log_level="debug",
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--port", "x"], "--port (GPT_OSS_PORT): Input should be a valid integer, "),
        (["--max-running", "0"], "--max-running (GPT_OSS_MAX_RUNNING): Input should be greater"),
        (["--backend-option", "x"], "--backend-option (GPT_OSS_BACKEND_OPTION): 'x' is not NAME"),
        (["--backend", "scripted"], "--backend scripted and --script FILE go together"),
    ],
)
def test_a_bad_value_is_one_clear_line(
    served: list[Settings],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    reason: str,
) -> None:
    assert main(["serve", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"gpt-oss-server serve: {reason}")
    assert served == []


@pytest.mark.parametrize("command", ["playground", "python-sandbox"])
@pytest.mark.parametrize("port", ["65536", "-1", "x"])
def test_a_port_that_is_none_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], command: str, port: str
) -> None:
    with pytest.raises(SystemExit):
        main([command, f"--port={port}"])
    assert "argument --port: expected a number up to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("sessions", ["0", "-3", "x"])
def test_a_sandbox_without_sessions_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], sessions: str
) -> None:
    with pytest.raises(SystemExit):
        main(["python-sandbox", f"--sessions={sessions}"])
    assert "argument --sessions: expected a number from 1 on" in capsys.readouterr().err


def test_a_bad_variable_is_reported_in_the_same_way(
    served: list[Settings],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPT_OSS_RAW_REASONING", "maybe")
    assert main(["serve"]) == 2
    assert "--raw-reasoning (GPT_OSS_RAW_REASONING): " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "status", "err"),
    [
        (CommandFailed("no port"), 1, "gpt-oss-server serve: no port\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_server_that_cannot_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    status: int,
    err: str,
) -> None:
    def fail(_: Settings) -> None:
        raise raised

    monkeypatch.setattr(serve, "serve", fail)
    assert main(["serve"]) == status
    assert capsys.readouterr() == ("", err)


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Settings) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(serve, "serve", fail)
    with pytest.raises(ValueError, match="a bug"):
        main(["serve"])


@pytest.mark.parametrize("command", [[], ["serve"], ["chat"], ["render"], ["parse"]])
def test_help_is_shown(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: gpt-oss-server")


def test_the_help_names_each_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = re.findall(r"\[(GPT_OSS_\w+)\]", re.sub(r"\s", "", capsys.readouterr().out))
    assert sorted(shown) == sorted(f"GPT_OSS_{name.upper()}" for name in Settings.model_fields)


@pytest.mark.parametrize(
    "shown",
    [
        "--raw-reasoning {show,hide}",
        "--port N port to listen on; 0 takes a free one (default: 8000)",
        "--drain-seconds NUMBER",
        "(default: info) [GPT_OSS_LOG_LEVEL]",
    ],
)
def test_the_help_shows_defaults_and_choices(
    capsys: pytest.CaptureFixture[str], shown: str
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    assert shown in " ".join(capsys.readouterr().out.split())


def test_the_help_is_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    headings = re.findall(r"^(\S.*):$", capsys.readouterr().out, re.MULTILINE)
    assert headings == ["options", *GROUPS]


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "serve"]])
def test_the_version_is_that_of_the_package(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"gpt-oss-server {version('gpt-oss-server')}\n"


HEAVY = {"torch", "transformers", "vllm", "sqlalchemy", "alembic", "openai", "uvicorn"}
WEB = {"starlette", "pydantic_settings"}


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (["--help"], {"pydantic", "asyncio"}),
        (["--version"], {"pydantic", "asyncio"}),
        (["serve", "--help"], {"tiktoken"}),
        (["render", "FILE"], WEB),
        (["parse", "FILE"], WEB),
    ],
)
def test_a_command_loads_neither_engine_nor_database_nor_what_it_does_not_need(
    tmp_path: Path, arguments: list[str], others: set[str]
) -> None:
    (tmp_path / "FILE").write_text('{"model": "m", "input": "Hello"}')
    program = (
        "import sys\nfrom contextlib import suppress\nfrom server.commands.main import main\n"
        "with suppress(SystemExit):\n    main(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert (HEAVY | others).isdisjoint(done.stderr.split())


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["serve", "--prot", "1"], ["serve", "--por", "1"]]
)
def test_what_is_no_option_is_refused(served: list[Settings], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert served == []


def test_an_unknown_option_of_a_command_leads_to_the_help_of_that_command(
    served: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--prot", "1"])
    assert capsys.readouterr().err == (
        "gpt-oss-server serve: unrecognized arguments: --prot 1; see gpt-oss-server serve --help\n"
    )


# render and parse


def test_a_requests_prompt_is_rendered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"model": "m", "input": "Grüße"}', encoding="utf-8")
    assert main(["render", str(file)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["text"].endswith("<|start|>user<|message|>Grüße<|end|><|start|>assistant")
    assert all(isinstance(token, int) for token in shown["token_ids"])


def test_a_completion_from_standard_input_is_parsed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(ANSWER))
    assert main(["parse", "-"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["content"] == "Hello"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"{}", "has no input"), (b"\xff", "can't decode"), (None, "No such file")],
)
def test_a_file_that_cannot_be_rendered_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, reason: str
) -> None:
    file = tmp_path / "request.json"
    if content is not None:
        file.write_bytes(content)
    assert main(["render", str(file)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("gpt-oss-server render: ")
    assert reason in err


# chat


def test_a_chat_with_a_server_that_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["chat", "--base-url", "http://127.0.0.1:9/v1"]) == 1
    assert capsys.readouterr().err == (
        "gpt-oss-server chat: nothing answers at http://127.0.0.1:9/v1: start `gpt-oss-server "
        "serve`, or name another address with --base-url\n"
    )


@pytest.mark.parametrize("url", ["", "localhost:8000/v1", "http://a:x/v1", "http://xn--/v1"])
def test_a_chat_with_an_address_that_is_none_names_the_option(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert main(["chat", "--base-url", url]) == 1
    assert capsys.readouterr().err.startswith("gpt-oss-server chat: --base-url: ")


def test_an_error_of_a_chats_server_has_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: chat.Chat) -> None:
        raise OpenAIError("no \x1b[2Jmodel")

    monkeypatch.setattr(chat.Chat, "run", refuse)
    assert main(["chat"]) == 1
    assert capsys.readouterr().err == "gpt-oss-server chat: no [2Jmodel\n"


def test_a_chat_gets_its_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    received: list[Any] = []

    class Silent:
        def __init__(self, options: chat.ChatOptions, _: Any) -> None:
            received.append(options)

        def run(self) -> None:
            """Say nothing."""

    monkeypatch.setattr(chat, "Chat", Silent)
    tools = tmp_path / "tools.json"
    options = {"base-url": "u", "api-key": "k", "model": "m", "effort": "low", "instructions": "i"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    assert main(["chat", *arguments, "--tools", str(tools)]) == 0
    assert received == [chat.ChatOptions("u", "k", "m", "low", "i", tools)]
