"""The command `chat`: a chat with a server in a terminal.

It is a client of Chat Completions, and works with any base URL. Reasoning is dimmed. Calls of tools
(functions and custom tools, declared with `--tools FILE`) are shown, and the user types their
results.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from openai import APIConnectionError, APITimeoutError, AuthenticationError, OpenAI, OpenAIError
from rich.console import Console
from rich.style import Style

from server.commands.base_url import DEFAULT_URL, check_base_url

HELP = "Type a message; /new starts over, /quit (or Ctrl-D) ends. Ctrl-C stops an answer."
DIM = Style(dim=True)
CALL = Style(color="cyan")
FAILED = Style(color="red")

# The SDK has its errors of reading from httpx or httpx2, depending on its version.
_BROKEN_OFF = frozenset({"ReadError", "RemoteProtocolError"})
# Terminals obey these characters: text of the model could set the title or clear the screen.
_CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of a chat.

    base_url: ends in `/v1`. model: None selects the server's first. effort: None selects the
    server's default. tools: a JSON file with a list in the form of Chat Completions' `tools`; None
    for no tools.
    """

    base_url: str = DEFAULT_URL
    api_key: str = "none"
    model: str | None = None
    effort: str | None = None
    instructions: str | None = None
    tools: Path | None = None


@dataclass(slots=True)
class Call:
    """A streamed tool call. body: a function's arguments, or a custom tool's input, so far."""

    custom: bool
    id: str = ""
    name: str = ""
    body: str = ""

    def entry(self) -> dict[str, Any]:
        """The call as an item of `tool_calls`."""
        kind, body = ("custom", "input") if self.custom else ("function", "arguments")
        return {"id": self.id, "type": kind, kind: {"name": self.name, body: self.body}}


@dataclass(slots=True)
class Answer:
    """The parts of one streamed answer so far."""

    content: str = ""
    reasoning: str = ""
    calls: dict[int, Call] = field(default_factory=dict)

    def message(self) -> dict[str, Any]:
        """The assistant message for the next request."""
        calls = [call.entry() for call in self.calls.values()]
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning"] = self.reasoning
        return message | ({"tool_calls": calls} if calls else {})


class Terminal(Console):
    """Standard output. A pipe that nobody reads is an error, as it is for other commands."""

    def on_broken_pipe(self) -> None:
        """Called in an `except` block. Raises BrokenPipeError, where Rich would end the process."""
        raise


class Chat:
    """A conversation with a server, shown on `console`. ask: reads a line from the user.

    Raises CommandFailed for a base URL that is none, ValueError for tools that are none.
    """

    def __init__(
        self, options: ChatOptions, console: Console, ask: Callable[[str], str] = input
    ) -> None:
        check_base_url(options.base_url)
        self._options = options
        self._console = console
        self._ask = ask
        self._client = OpenAI(base_url=options.base_url, api_key=options.api_key, max_retries=0)
        self._tools = _read_tools(options.tools)
        self._messages: list[dict[str, Any]] = []
        self._model = ""

    def run(self) -> None:
        """Chat until the user quits.

        Raises OpenAIError if the server cannot be reached, ValueError if it serves no model.
        """
        self._model = self._options.model or self._first_model()
        self._write(f"{self._model} at {self._options.base_url}. {HELP}\n", DIM)
        self._start_over()
        for text in self._lines():
            if text == "/new":
                self._start_over()
            elif text:
                self._send(text)

    def _first_model(self) -> str:
        answer = self._client.models.with_raw_response.list()
        try:
            return str(answer.http_response.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError) as error:
            where = self._options.base_url
            raise ValueError(f"{where} names no model: is it the address of an API?") from error

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                text = self._ask("> ").strip()
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                return
            if text in ("/quit", "/exit"):
                return
            yield text

    def _start_over(self) -> None:
        instructions = self._options.instructions
        message = {"role": "developer", "content": instructions}
        self._messages = [message] if instructions else []

    def _send(self, text: str) -> None:
        start = len(self._messages)
        self._messages.append({"role": "user", "content": text})
        try:
            while self._answer():
                continue
        except (OpenAIError, httpx.HTTPError) as error:
            self._drop(start, explained(error, self._options.base_url), FAILED)
        except (EOFError, KeyboardInterrupt):
            self._drop(start, "stopped", DIM)

    def _drop(self, start: int, reason: str, style: Style) -> None:
        """Forget the messages from `start` on, and show why, on a line of its own."""
        self._write(f"\n{reason}\n", style)
        del self._messages[start:]

    def _answer(self) -> bool:
        """Stream one answer. Returns whether it called tools, so that another one must follow."""
        answer = Answer()
        with self._client.chat.completions.create(**self._request()) as stream:
            for chunk in stream:
                for choice in chunk.choices or ():  # some servers send null, and no delta
                    if (delta := getattr(choice, "delta", None)) is not None:
                        self._show(answer, delta)
        self._console.print()
        self._messages.append(answer.message())
        for call in answer.calls.values():
            self._messages.append(self._result_of(call))
        return bool(answer.calls)

    def _request(self) -> dict[str, Any]:
        effort = self._options.effort
        return {
            "model": self._model,
            "messages": self._messages,
            "stream": True,
            **({"tools": self._tools} if self._tools else {}),
            **({"reasoning_effort": effort} if effort else {}),
        }

    def _show(self, answer: Answer, delta: Any) -> None:
        if reasoning := getattr(delta, "reasoning", None):
            answer.reasoning += reasoning
            self._write(reasoning, DIM)
        if delta.content:
            if answer.reasoning and not answer.content:
                self._write("\n", DIM)
            answer.content += delta.content
            self._write(delta.content)
        for part in delta.tool_calls or ():
            self._show_call(answer, part)

    def _show_call(self, answer: Answer, part: Any) -> None:
        # The SDK has no type for the deltas of custom tools.
        custom: dict[str, str] | None = getattr(part, "custom", None)
        fields = custom or (part.function.to_dict() if part.function else {})
        call = answer.calls.setdefault(part.index, Call(custom is not None))
        call.id += part.id or ""
        if name := fields.get("name"):
            call.name += name
            self._write(f"\n{name} ", CALL)
        body = fields.get("input" if call.custom else "arguments") or ""
        call.body += body
        self._write(body, CALL)

    def _write(self, text: str, style: Style | None = None) -> None:
        self._console.print(
            plain(text),
            style=style,
            end="",
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )

    def _result_of(self, call: Call) -> dict[str, Any]:
        result = self._ask(f"{plain(call.name)} returns: ")
        return {"role": "tool", "tool_call_id": call.id, "content": result}


def explained(error: Exception, base_url: str) -> str:
    """What an error of a request to the server means for the user."""
    match error:
        case AuthenticationError():
            return f"{base_url} refuses the API key: give one with --api-key"
        case APITimeoutError():
            return f"{base_url} does not answer in time"
        case APIConnectionError() if type(error.__cause__).__name__ in _BROKEN_OFF:
            return f"the connection to {base_url} broke off"
        case APIConnectionError():
            return (
                f"nothing answers at {base_url}: start `gpt-oss-server serve`, or name another "
                "address with --base-url"
            )
    return str(error)


def plain(text: str) -> str:
    """`text`, or a piece of one, without control characters other than line breaks and tabs."""
    return _CONTROL.sub("", text)


def _read_tools(file: Path | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    tools = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(tools, list):
        raise ValueError(f"{file}: expected a JSON list of tools")
    return tools
