"""The command line `gpt-oss-server` and its options."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from server.commands.base_url import DEFAULT_URL
from server.commands.failure import CommandFailed

if TYPE_CHECKING:
    from pydantic import ValidationError

    from server.commands.option_help import Option
    from server.settings import Settings

INTERRUPTED = 130
"""The exit status after Ctrl-C, as in shells."""
BROKEN_PIPE = 141
"""The exit status where nobody reads the output any more, as in shells."""

MAX_PORT = 65_535

_RENDER = (
    "Print the prompt of a request as JSON, with `text` and `token_ids`. FILE has the request's"
    " JSON, in the form of Responses or Chat Completions."
)
_PARSE = (
    "Print the messages of a completion as JSON. FILE has harmony text, or a JSON list of token"
    " ids: what follows `<|start|>assistant`."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, 1 if it failed, 130 after Ctrl-C.

    Raises SystemExit after `--help` and `--version`, with 2 for an invalid option, and with 141
    where nobody reads the output.
    """
    command = ""
    try:
        with _piped():
            # Not before: the import of the options of `serve` takes long enough for a Ctrl-C.
            options = vars(_parser().parse_args(argv))
            command, run = options.pop("command"), options.pop("run")
            run(**options)
    except CommandFailed as error:
        print(f"gpt-oss-server {command}: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


# Commands import what they need when they run, even the options of `serve`: with all imports,
# `--help` would take a second.


def _serve(**options: Any) -> None:
    from server.commands.garbage import collect_seldom

    collect_seldom()
    settings = _settings(options)

    from server.commands.serve import serve

    serve(settings)


def _doctor(*, as_json: bool, **options: Any) -> None:
    settings = _settings(options)

    from server.commands.doctor.report import doctor

    if not doctor(settings, as_json=as_json):
        raise CommandFailed("serve would fail here with these options")


def _chat(**options: Any) -> None:
    from openai import OpenAIError

    from server.commands.chat import Chat, ChatOptions, Terminal, explained, plain

    chat_options = ChatOptions(**options)
    _check_input()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a byte that is no text must not end the chat
    try:
        Chat(chat_options, Terminal()).run()
    except BrokenPipeError:
        raise
    except (OpenAIError, ValueError, OSError) as error:
        raise CommandFailed(plain(explained(error, chat_options.base_url))) from error


def _playground(**options: Any) -> None:
    from server.commands.playground import PlaygroundOptions, show_playground

    show_playground(PlaygroundOptions(**options))


def _python_sandbox(**options: Any) -> None:
    from server.commands.python_sandbox import ServiceOptions, run_service

    run_service(ServiceOptions(**options))


def _render(file: str) -> None:
    from server.commands.inspect import render_file

    _show(render_file, file)


def _parse(file: str) -> None:
    from server.commands.inspect import parse_file

    _show(parse_file, file)


def _show(view: Callable[[str], str], file: str) -> None:
    from server.errors import APIError

    if file == "-":
        _check_input()
    try:
        print(view(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")))
    except BrokenPipeError:
        raise
    except (APIError, ValueError, OSError) as error:
        raise CommandFailed(str(error)) from error


def _check_input() -> None:
    """Raise CommandFailed if the standard input was closed before the start."""
    if sys.stdin is None:
        raise CommandFailed("there is no standard input")


@contextmanager
def _piped() -> Iterator[None]:
    """End without an error where what reads the output has ended, as `head` does."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python writes the rest when it ends, and would show the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE) from None


def _settings(options: dict[str, Any]) -> "Settings":
    from pydantic import ValidationError

    from server.settings import Settings

    try:
        return Settings(**options)
    except ValidationError as error:
        raise CommandFailed(_first(error), status=2) from error


class _Command(argparse.ArgumentParser):
    """The parser of a command. Those that take settings get their options when they are used."""

    def __init__(self, *args: Any, takes_settings: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._takes_settings = takes_settings

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Called once, with the arguments after the name of the command."""
        if self._takes_settings:
            _add_settings(self)
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:  # the parser of all commands would show the usage of none of them
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Say it in one line: the usage of `serve` takes a page."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Version(argparse.Action):
    """Prints the version of the package and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"{parser.prog} {version(parser.prog)}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpt-oss-server", description="OpenAI-compatible server for gpt-oss models."
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        default=argparse.SUPPRESS,
        help="print the version and exit",
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Command
    )
    serving = commands.add_parser(
        "serve",
        help="serve a checkpoint",
        description="Serve a checkpoint. Each option is also an environment variable.",
        allow_abbrev=False,
        takes_settings=True,
    )
    serving.set_defaults(run=_serve)
    doctor = commands.add_parser(
        "doctor",
        help="check whether serve would run here",
        description="Check this machine for `serve` with the same options, without a model: exit "
        "status 1 where it would fail.",
        allow_abbrev=False,
        takes_settings=True,
    )
    doctor.set_defaults(run=_doctor)
    doctor.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    _chat_command(commands)
    _playground_command(commands)
    _sandbox_command(commands)
    _file_command(commands, "render", _render, "show the prompt of a request", _RENDER)
    _file_command(commands, "parse", _parse, "show the messages of a completion", _PARSE)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from server.commands.option_help import GROUPS, option

    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for each in map(option, names):
            group.add_argument(
                each.flag,
                action="append" if each.repeatable else "store",
                default=argparse.SUPPRESS,
                metavar=each.metavar,
                help=_help(each).replace("%", "%%"),
            )


def _help(each: "Option") -> str:
    size = f", {each.size}" if each.size else ""
    default = "" if each.default is None else f" (default: {each.default}{size})"
    return f"{each.description}{default} [{each.variable}]"


def _chat_command(commands: Any) -> None:
    chat = commands.add_parser(
        "chat",
        help="talk to a server in a terminal",
        description="Talk to a server in a terminal: to this one, or to any other"
        " OpenAI-compatible one.",
    )
    chat.set_defaults(run=_chat)
    for name, kind, text in (
        ("--base-url", str, f"the API's address (default: {DEFAULT_URL})"),
        ("--api-key", str, "the server's key"),
        ("--model", str, "a served name (default: the server's first)"),
        ("--effort", str, "reasoning effort: none, low, medium or high"),
        ("--instructions", str, "what the developer message says"),
        (
            "--tools",
            Path,
            "JSON file with a list in the form of Chat's `tools`; you type their results",
        ),
    ):
        chat.add_argument(name, type=kind, default=argparse.SUPPRESS, help=text)


def _playground_command(commands: Any) -> None:
    command = commands.add_parser(
        "playground",
        help="show the playground for a server",
        description="Show the playground in a process of its own, for any OpenAI-compatible"
        " server.",
        allow_abbrev=False,
    )
    command.set_defaults(run=_playground)
    for name, kind, text in (
        ("--base-url", str, f"the API's address (default: {DEFAULT_URL})"),
        ("--host", str, "address to listen on (default: 127.0.0.1)"),
        ("--port", _port, "port to listen on; 0 takes a free one (default: 8080)"),
    ):
        command.add_argument(name, type=kind, default=argparse.SUPPRESS, help=text)
    command.add_argument(
        "--allowed-host",
        action="append",
        default=argparse.SUPPRESS,
        metavar="HOST",
        help="name of this site, besides those of this machine; may be repeated",
    )
    command.add_argument(
        "--allow-anonymous",
        type=_boolean,
        default=argparse.SUPPRESS,
        metavar="{true,false}",
        help="let other machines use it (default: false)",
    )


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError("expected true or false")
    return text == "true"


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"expected a number up to {MAX_PORT}")
    return int(text)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError("expected a number from 1 on")
    return int(text)


def _sandbox_command(commands: Any) -> None:
    command = commands.add_parser(
        "python-sandbox",
        help="run Python sessions for servers",
        description="Run Python sessions for servers, which use it with --python-sandbox URL.",
        allow_abbrev=False,
    )
    command.set_defaults(run=_python_sandbox)
    for name, kind, text in (
        ("--host", str, "address to listen on (default: 127.0.0.1)"),
        ("--port", _port, "port to listen on; 0 takes a free one (default: 8001)"),
        ("--key", str, "key that servers must send [GPT_OSS_PYTHON_SANDBOX_KEY]"),
        ("--folder", Path, "folder of the sessions' files (default: that of `serve`)"),
        ("--sessions", _count, "processes that live at once (default: 64)"),
    ):
        command.add_argument(name, type=kind, default=argparse.SUPPRESS, help=text)


def _file_command(
    commands: Any, name: str, run: Callable[[str], None], text: str, description: str
) -> None:
    command = commands.add_parser(name, help=text, description=description)
    command.set_defaults(run=run)
    command.add_argument("file", metavar="FILE", help="a file, or - for standard input")


def _first(error: "ValidationError") -> str:
    from server.commands.option_help import flag, variable

    first = error.errors(include_url=False, include_context=False)[0]
    option = "".join(f"{flag(name)} ({variable(name)}): " for name in map(str, first["loc"][:1]))
    return option + first["msg"].removeprefix("Value error, ")
