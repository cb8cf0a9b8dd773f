"""History items of kinds that only other servers make."""

from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role, SystemContent
from server.errors import InvalidRequest
from server.replay import items, unsupported_items
from server.replay.conversation import conversation, developer

SHELL = {
    "type": "shell_call",
    "call_id": "call_1",
    "action": {"commands": ["ls"], "timeout_ms": None},
}
SHELL_OUTPUT = {
    "type": "shell_call_output",
    "call_id": "call_1",
    "output": [
        {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 2}},
        {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
    ],
}
PATCH = {
    "type": "apply_patch_call",
    "call_id": "call_1",
    "operation": {"type": "delete_file", "path": "a"},
    "status": "completed",
}
PATCHED = {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed"}
LOCAL = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "call_1",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
}
LOCAL_OUTPUT = {"type": "local_shell_call_output", "call_id": "call_1", "output": "a.txt"}
MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "wiki",
    "name": "find",
    "arguments": '{"q": 1}',
}
CLICK = {"type": "computer_call", "call_id": "call_1", "action": {"type": "click", "x": 1, "y": 2}}
SCREEN = {
    "type": "computer_call_output",
    "call_id": "call_1",
    "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"},
}
IMAGE_NOTE = "[image left out: this model reads text only]"


def read(*value: Any) -> list[Message]:
    return items.messages((), items.resolve(items.normalise(list(value)), {}))


def call(tool: str, arguments: str) -> Message:
    recipient = f"functions.{tool}"
    return Message(Author(Role.ASSISTANT), arguments, Channel.COMMENTARY, recipient, "json")


def result(tool: str, output: str) -> Message:
    author = Author(Role.TOOL, f"functions.{tool}")
    return Message(author, output, Channel.COMMENTARY, "assistant")


@pytest.mark.parametrize(
    ("item", "arguments", "output", "text"),
    [
        (
            SHELL,
            '{"commands":["ls"],"timeout_ms":null}',
            SHELL_OUTPUT,
            "a.txt\nno\n[exit code 2]\n[timed out]",
        ),
        (PATCH, '{"type":"delete_file","path":"a"}', PATCHED, "failed"),
        (PATCH, '{"type":"delete_file","path":"a"}', PATCHED | {"output": "no a"}, "no a"),
        (LOCAL, '{"type":"exec","command":["ls"],"env":{}}', LOCAL_OUTPUT, "a.txt"),
        (CLICK, '{"actions":[{"type":"click","x":1,"y":2}]}', SCREEN, IMAGE_NOTE),
        (
            CLICK | {"action": None, "actions": [{"type": "wait"}]},
            '{"actions":[{"type":"wait"}]}',
            SCREEN,
            IMAGE_NOTE,
        ),
    ],
)
def test_a_call_and_its_output_become_those_of_a_function(
    item: Any, arguments: str, output: Any, text: str
) -> None:
    tool = item["type"].removesuffix("_call")
    assert read(item, output) == [call(tool, arguments), result(tool, text)]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"output": "found"}, "found"),
        ({"error": "lost"}, "lost"),
        ({"error": {"type": "http_error", "code": 500}}, '{"type":"http_error","code":500}'),
        ({}, ""),
    ],
)
def test_an_mcp_call_becomes_a_call_and_its_output(more: Any, text: str) -> None:
    assert read(MCP | more) == [call("wiki__find", '{"q": 1}'), result("wiki__find", text)]


def test_a_message_before_an_unsupported_call_is_commentary() -> None:
    message, _, _ = read({"role": "assistant", "content": "Let me see."}, LOCAL, LOCAL_OUTPUT)
    assert message.channel is Channel.COMMENTARY


@pytest.mark.parametrize("kind", sorted(unsupported_items.REPLACED_BY_NOTE))
def test_a_note_replaces_what_another_server_ran(kind: str) -> None:
    _, note = read({"role": "user", "content": "hi"}, {"type": kind, "id": "x_1"})
    text = f"[{kind} left out: this model cannot be shown it]"
    assert note == Message(Author(Role.DEVELOPER), text)


def test_a_note_at_the_start_is_none_of_the_instructions() -> None:
    messages = read({"type": "web_search_call"}, {"role": "user", "content": "hi"})
    whole = conversation(SystemContent(), messages, instructions="Be kind.")
    assert whole.messages[1:] == (developer("Be kind."), *messages)


FOREIGN_CALLS = sorted(
    kind for kind in unsupported_items.REPLACED_BY_NOTE if kind.endswith("_call")
)


@pytest.mark.parametrize("kind", [*FOREIGN_CALLS, "mcp_approval_request"])
def test_a_message_before_another_servers_call_is_commentary(kind: str) -> None:
    said = [{"role": "assistant", "content": text} for text in ("Let me see.", "Done.")]
    preamble, _, final = read(said[0], {"type": kind}, said[1])
    assert (preamble.channel, final.channel) == (Channel.COMMENTARY, Channel.FINAL)


@pytest.mark.parametrize("kind", ["mcp_list_tools", "tool_search_output"])
def test_a_message_before_what_is_no_call_is_final(kind: str) -> None:
    message, _ = read({"role": "assistant", "content": "Done."}, {"type": kind})
    assert message.channel is Channel.FINAL


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ([SHELL | {"action": "ls"}], "input.0.action"),
        ([SHELL | {"call_id": None}], "input.0.call_id"),
        ([SHELL_OUTPUT], "input.0.call_id"),
        ([SHELL, SHELL_OUTPUT | {"output": "a"}], "input.1.output"),
        ([SHELL, SHELL_OUTPUT | {"output": [3]}], "input.1.output.0"),
        ([SHELL, SHELL_OUTPUT | {"output": [{"stdout": 3}]}], "input.1.output.0.stdout"),
        ([MCP | {"arguments": {}}], "input.0.arguments"),
        ([CLICK, SCREEN | {"output": "x"}], "input.1.output"),
        ([CLICK | {"actions": "x"}], "input.0.actions"),
        ([PATCH, PATCHED | {"output": 3}], "input.1.output"),
    ],
)
def test_an_error_names_the_bad_field(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(*value)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "kind", sorted([*unsupported_items.REPLACED_BY_NOTE, "computer_call_output"])
)
def test_items_that_only_a_note_replaces_can_be_refused(kind: str) -> None:
    normal = items.normalise([{"role": "user", "content": "hi"}, {"type": kind, "id": "x_1"}])
    with pytest.raises(InvalidRequest) as caught:
        unsupported_items.refuse_unreadable(normal, "input")
    assert (caught.value.param, caught.value.code) == ("input.1", "unsupported_input")
    assert kind in caught.value.message


def test_calls_with_text_are_not_refused() -> None:
    unsupported_items.refuse_unreadable(items.normalise([SHELL, SHELL_OUTPUT, MCP]), "input")


@pytest.mark.parametrize("label", ["my server", "a\u200bb", "", 1])
def test_a_bad_server_label_is_refused(label: Any) -> None:
    item = {"type": "mcp_call", "id": "m", "name": "f", "server_label": label, "arguments": "{}"}
    with pytest.raises(InvalidRequest) as raised:
        items.messages((), items.resolve(items.normalise([item]), {}))
    assert raised.value.param == "input.0.server_label"
