"""`gpt-oss-server`: serve, chat, render a request's prompt, parse a completion."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openai import OpenAIError
from pydantic import ValidationError
from rich.console import Console

from server import debug
from server.errors import APIError
from server.serve import StartUpFailed, serve
from server.settings import Settings
from server.terminal import DEFAULT_URL, Chat, ChatOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status: 0, 1 where it failed, 2 for a bad option."""
    options = vars(_parser().parse_args(argv))
    command = options.pop("command")
    try:
        if command == "serve":
            serve(Settings(**options))
        elif command == "chat":
            Chat(ChatOptions(**options), Console()).run()
        else:
            run = debug.render_file if command == "render" else debug.parse_file
            print(run(_read(options["file"])))
    except ValidationError as error:
        return _fail(command, _first(error), status=2)
    except (StartUpFailed, APIError, OpenAIError, ValueError, OSError) as error:
        return _fail(command, str(error), status=1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpt-oss-server", description="OpenAI-compatible server for gpt-oss models."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serving = commands.add_parser(
        "serve",
        help="serve a checkpoint",
        description="Serve a checkpoint. Each option is also an environment variable.",
    )
    for name, field in Settings.model_fields.items():
        several = isinstance(field.default, tuple)
        serving.add_argument(
            f"--{name.replace('_', '-')}",
            action="append" if several else "store",
            default=argparse.SUPPRESS,
            help=f"{field.description} [GPT_OSS_{name.upper()}]".replace("%", "%%"),
        )
    _chat_command(commands)
    _file_command(commands, "render", "request JSON -> the prompt's text and ids")
    _file_command(commands, "parse", "token ids (JSON) or harmony text -> messages")
    return parser


def _chat_command(commands: Any) -> None:
    chat = commands.add_parser("chat", help="talk to a server", description="Talk to a server.")
    for flag, kind, text in (
        ("--base-url", str, f"the API's address, default {DEFAULT_URL}"),
        ("--api-key", str, "the server's key"),
        ("--model", str, "a served name, default the server's first"),
        ("--effort", str, "reasoning effort: none, low, medium or high"),
        ("--instructions", str, "what the developer message says"),
        ("--tools", Path, "JSON file with a list of tools; you type their results"),
    ):
        chat.add_argument(flag, type=kind, default=argparse.SUPPRESS, help=text)


def _file_command(commands: Any, name: str, text: str) -> None:
    command = commands.add_parser(name, help=text, description=f"{name.capitalize()}: {text}.")
    command.add_argument("file", metavar="FILE", help="a file, or - for standard input")


def _read(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    option = "".join(f"--{str(part).replace('_', '-')}: " for part in first["loc"][:1])
    return option + first["msg"].removeprefix("Value error, ")


def _fail(command: str, message: str, *, status: int) -> int:
    print(f"gpt-oss-server {command}: {message}", file=sys.stderr)
    return status
