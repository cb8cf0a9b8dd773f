"""`gpt-oss-server`: serve, chat, render a request's prompt, parse a completion."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from server import debug
from server.errors import APIError
from server.serve import CannotServe, serve
from server.settings import Settings

INTERRUPTED = 130
"""The exit status of what Ctrl-C ended, as shells have it."""


class CommandFailed(Exception):
    """A command could not do its work; the message is one line for the person who gave it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status: 0, 1 where it failed, 2 for a bad option."""
    options = vars(_parser().parse_args(argv))
    command, run = options.pop("command"), options.pop("run")
    try:
        run(**options)
    except ValidationError as error:
        return _fail(command, _first(error), status=2)
    except (CannotServe, CommandFailed) as error:
        return _fail(command, str(error), status=1)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _serve(**options: Any) -> None:
    serve(Settings(**options))


def _chat(**options: Any) -> None:
    # What only a client needs is loaded here: it takes half a second.
    from openai import OpenAIError
    from rich.console import Console

    from server.terminal import Chat, ChatOptions

    try:
        Chat(ChatOptions(**options), Console()).run()
    except (OpenAIError, ValueError, OSError) as error:
        raise CommandFailed(str(error)) from error


def _show(view: Callable[[str], str], file: str) -> None:
    try:
        print(view(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")))
    except (APIError, ValueError, OSError) as error:
        raise CommandFailed(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpt-oss-server", description="OpenAI-compatible server for gpt-oss models."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serving = commands.add_parser(
        "serve",
        help="serve a checkpoint",
        description="Serve a checkpoint. Each option is also an environment variable.",
        allow_abbrev=False,
    )
    serving.set_defaults(run=_serve)
    for name, field in Settings.model_fields.items():
        several = isinstance(field.default, tuple)
        serving.add_argument(
            _flag(name),
            action="append" if several else "store",
            default=argparse.SUPPRESS,
            help=f"{field.description} [{_variable(name)}]".replace("%", "%%"),
        )
    _chat_command(commands)
    _file_command(
        commands, "render", debug.render_file, "request JSON -> the prompt's text and ids"
    )
    _file_command(
        commands, "parse", debug.parse_file, "token ids (JSON) or harmony text -> messages"
    )
    return parser


def _chat_command(commands: Any) -> None:
    chat = commands.add_parser("chat", help="talk to a server", description="Talk to a server.")
    chat.set_defaults(run=_chat)
    for flag, kind, text in (
        ("--base-url", str, "the API's address, default that of `serve`"),
        ("--api-key", str, "the server's key"),
        ("--model", str, "a served name, default the server's first"),
        ("--effort", str, "reasoning effort: none, low, medium or high"),
        ("--instructions", str, "what the developer message says"),
        ("--tools", Path, "JSON file with a list of tools; you type their results"),
    ):
        chat.add_argument(flag, type=kind, default=argparse.SUPPRESS, help=text)


def _file_command(commands: Any, name: str, view: Callable[[str], str], text: str) -> None:
    command = commands.add_parser(name, help=text, description=f"{name.capitalize()}: {text}.")
    command.set_defaults(run=partial(_show, view))
    command.add_argument("file", metavar="FILE", help="a file, or - for standard input")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    option = "".join(f"{_flag(name)} ({_variable(name)}): " for name in map(str, first["loc"][:1]))
    return option + first["msg"].removeprefix("Value error, ")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(name: str) -> str:
    return f"{Settings.model_config['env_prefix']}{name.upper()}"


def _fail(command: str, message: str, *, status: int) -> int:
    print(f"gpt-oss-server {command}: {message}", file=sys.stderr)
    return status
