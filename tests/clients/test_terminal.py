"""`gpt-oss-server chat` against a real server process."""

import http.server
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from rich.console import Console

from server.commands.chat import Chat, ChatOptions, explained

THINKING = "<|channel|>analysis<|message|>They greet me.<|end|>"
HELLO = f"{THINKING}<|start|>assistant<|channel|>final<|message|>Hello [bold]you[/bold].<|return|>"
CALL = (
    '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city":"Oslo"}<|call|>'
)
SUNNY = "<|channel|>final<|message|>It is sunny.<|return|>"
QUERY = "<|channel|>commentary to=functions.sql<|message|>select 'red'\nfrom cars<|call|>"
NASTY = HELLO.replace("greet", "\x1b[2Jgreet").replace("Hello", "a\x1b]0;b\x07\r\x7f\x9b\tc\n")
SCRIPT = [
    {"prompt_contains": "3 red cars", "completion": SUNNY.replace("It is sunny", "Three")},
    {"prompt_contains": "How many", "completion": QUERY},
    {"prompt_contains": "degrees", "completion": SUNNY},
    {"prompt_contains": "Oslo", "completion": CALL},
    {"prompt_contains": "speak Norwegian", "completion": HELLO.replace("Hello", "Hei")},
    {"prompt_contains": "hi there", "completion": HELLO},
    {
        "prompt_contains": "reverse it",
        "completion": HELLO.replace("Hello", "print(a[:x:]) :smile:"),
        "tokens_per_chunk": 100,
    },
    {"prompt_contains": "be nasty", "completion": NASTY},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
    {"type": "custom", "custom": {"name": "sql", "description": "Runs a query."}},
]


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", "gpt-oss-20b")


def typing(*lines: str) -> tuple[Callable[[str], str], list[str]]:
    """A user who enters these lines, then Ctrl-D. Records the prompts shown."""
    prompts: list[str] = []
    rest: Iterator[str] = iter(lines)

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        try:
            return next(rest)
        except StopIteration:
            raise EOFError from None

    return ask, prompts


def talk(base_url: str, *lines: str, **options: Any) -> tuple[str, list[str]]:
    shown = io.StringIO()
    ask, prompts = typing(*lines)
    Chat(ChatOptions(base_url=base_url, **options), Console(file=shown, width=200), ask).run()
    return shown.getvalue(), prompts


def test_the_model_and_the_answer_are_shown(base_url: str) -> None:
    shown, _ = talk(base_url, "hi there")
    assert "gpt-oss-20b at " in shown
    assert "They greet me.\nHello [bold]you[/bold]." in shown


def test_reasoning_is_dimmed(base_url: str) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system="standard", width=200)
    Chat(ChatOptions(base_url=base_url), console, typing("hi there")[0]).run()
    assert "\x1b[2mThey\x1b[0m" in shown.getvalue()


def test_words_between_colons_stay_as_they_are(base_url: str) -> None:
    shown, _ = talk(base_url, "reverse it")
    assert "print(a[:x:]) :smile:" in shown


def test_control_characters_of_the_model_do_not_reach_the_terminal(base_url: str) -> None:
    shown, _ = talk(base_url, "be nasty")
    assert "They [2Jgreet me.\na]0;b" in shown
    assert not set("\x1b\x07\r\x7f\x9b") & set(shown)


def test_line_breaks_and_tabs_of_the_model_are_shown(base_url: str) -> None:
    shown, _ = talk(base_url, "be nasty")
    assert re.search(r"a\]0;b\s+c\n", shown)


def test_a_call_is_shown_and_its_result_is_typed(base_url: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    shown, prompts = talk(base_url, "Weather in Oslo?", "20 degrees", tools=tools)
    assert 'weather {"city":"Oslo"}' in shown
    assert "weather returns: " in prompts
    assert "It is sunny." in shown


def test_a_call_of_a_custom_tool_is_shown_and_its_result_is_typed(
    base_url: str, tmp_path: Path
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    shown, prompts = talk(base_url, "How many?", "3 red cars", tools=tools)
    assert "sql select 'red'\nfrom cars" in shown
    assert "sql returns: " in prompts
    assert "Three." in shown


def test_end_of_input_instead_of_a_result_ends_the_chat(base_url: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    shown, prompts = talk(base_url, "How many?", tools=tools)
    assert prompts[1:] == ["sql returns: ", "> "]
    assert "stopped" in shown


def test_instructions_are_sent(base_url: str) -> None:
    shown, _ = talk(base_url, "hi there", instructions="speak Norwegian")
    assert "Hei" in shown


def test_an_answer_is_part_of_the_next_request(base_url: str) -> None:
    shown, _ = talk(base_url, "hi there", "It is warm: 20 degrees", "/quit", "hi there")
    assert shown.count("Hello") == 1
    assert shown.count("It is sunny.") == 1


def test_starting_over_forgets(base_url: str) -> None:
    shown, _ = talk(base_url, "It is warm: 20 degrees", "/new", "hi there")
    assert "Hello" in shown


def test_a_refused_request_is_shown_and_dropped(base_url: str) -> None:
    shown, _ = talk(base_url, "unscripted", "", "hi there")
    assert "unscripted<|end|>" in shown
    assert "Hello" in shown


def test_tools_that_are_no_list_are_refused(base_url: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="expected a JSON list of tools"):
        talk(base_url, tools=tools)


@pytest.mark.parametrize("body", [b'{"object": "list", "data": []}', b"<html>", b"[]", b"\xff"])
def test_a_server_that_names_no_model_is_an_error(body: bytes) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(ValueError, match="names no model"):
            talk(f"http://127.0.0.1:{server.server_port}/v1", "hi")
        thread.join()


def talk_to(*chunks: dict[str, Any], breaks_off: bool = False) -> str:
    """What the terminal shows for an answer of another server. Its address is replaced by URL."""
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body) + breaks_off))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        shown, _ = talk(url, "hi", model="m")
        thread.join()
    return shown.replace(url, "URL")


CHUNK: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}],
}


def test_the_error_of_an_answer_that_breaks_off_is_a_line_of_its_own() -> None:
    assert "\nHel\nthe connection to URL broke off" in talk_to(CHUNK, breaks_off=True)


def test_chunks_of_other_servers_may_lack_choices_and_deltas() -> None:
    odd: tuple[Any, ...] = (None, [], [{"index": 0, "finish_reason": "stop"}])
    shown = talk_to(CHUNK, *(CHUNK | {"choices": choices} for choices in odd))
    assert shown.count("Hel") == 1


def test_no_server_is_an_error() -> None:
    with pytest.raises(openai.APIConnectionError):
        talk("http://127.0.0.1:9/v1", "hi")


def test_a_refused_key_names_the_option(serve: Callable[..., str]) -> None:
    url = serve(SCRIPT, "--api-key", "secret")
    with pytest.raises(openai.AuthenticationError) as refusal:
        Chat(ChatOptions(base_url=url), Console(file=io.StringIO())).run()
    assert explained(refusal.value, url) == f"{url} refuses the API key: give one with --api-key"
