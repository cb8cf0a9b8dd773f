"""Converts history items that only other servers make into items that this server reads.

A call that the client ran, or that holds its own result, becomes a call of a function that is named
after the kind, and its output becomes that of the function. A call that another server ran becomes
a note.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import orjson

from server.replay.content import unsupported_input
from server.replay.tool_names import called_name
from server.schemas.fields import array, mapping, optional_string, required, string
from server.store.items import Item

NOTE = "note"
"""The type of an item that replaces one of the type `of`. No client can send it."""

_Reader = Callable[[Item, str], list[Item]]


def readable(item: Item, param: str) -> list[Item]:
    """The item as items of kinds that this server makes; an item of such a kind is unchanged.

    Raises InvalidRequest whose `param` is under `param`.
    """
    if item["type"] in REPLACED_BY_NOTE:
        return [_note(item)]
    return _READERS[item["type"]](item, param) if item["type"] in _READERS else [item]


def refuse_unreadable(items: Sequence[Item], param: str, own: Collection[str] = ()) -> None:
    """Raises InvalidRequest naming the first item that only a note would replace.

    own: the ids of items that this server made, which need no note.
    """
    for index, item in enumerate(items):
        if item["id"] in own:
            continue
        if item["type"] in REPLACED_BY_NOTE or item["type"] == "computer_call_output":
            raise unsupported_input(item["type"], f"{param}.{index}")


def _call(tool: str, field: str) -> _Reader:
    def read(item: Item, param: str) -> list[Item]:
        arguments = required(item, field, param, mapping)
        return [_function_call(required(item, "call_id", param, string), tool, arguments)]

    return read


def _output(item: Item, param: str) -> list[Item]:
    # Older clients send the id of the call in the `id` of a local_shell_call_output.
    call_id = item.get("call_id") or item.get("id")
    return [_function_output(call_id, item.get("output") or item.get("status") or "")]


def _shell_output(item: Item, param: str) -> list[Item]:
    chunks = required(item, "output", param, array)
    texts = [_shell_chunk(chunk, f"{param}.output.{n}") for n, chunk in enumerate(chunks)]
    call_id = required(item, "call_id", param, string)
    return [_function_output(call_id, "\n".join(filter(None, texts)))]


def _shell_chunk(value: Any, param: str) -> str:
    chunk = mapping(value, param)
    texts = [optional_string(chunk.get(name), f"{param}.{name}") for name in ("stdout", "stderr")]
    outcome = mapping(chunk.get("outcome", {}), f"{param}.outcome")
    if outcome.get("type") == "timeout":
        texts.append("[timed out]")
    elif outcome.get("exit_code"):
        texts.append(f"[exit code {outcome['exit_code']}]")
    return "\n".join(text for text in texts if text)


def _mcp_call(item: Item, param: str) -> list[Item]:
    call = {
        "type": "function_call",
        "call_id": item["id"],
        "name": required(item, "name", param, string),
        "namespace": required(item, "server_label", param, called_name),
        "arguments": required(item, "arguments", param, string),
    }
    error = item.get("error")
    output = item.get("output") or (error if isinstance(error, str | None) else _json(error))
    return [call, _function_output(item["id"], output or "")]


def _computer_call(item: Item, param: str) -> list[Item]:
    actions = item.get("actions") or [item.get("action")]
    call_id = required(item, "call_id", param, string)
    return [_function_call(call_id, "computer", {"actions": array(actions, f"{param}.actions")})]


def _computer_output(item: Item, param: str) -> list[Item]:
    required(item, "output", param, mapping)
    call_id = required(item, "call_id", param, string)
    return [_function_output(call_id, [{"type": "input_image"}])]


def _note(item: Item) -> Item:
    kind = item["type"]
    return {"type": NOTE, "of": kind, "text": f"[{kind} left out: this model cannot be shown it]"}


def _function_call(call_id: str, name: str, arguments: Any) -> Item:
    text = _json(arguments)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def _function_output(call_id: Any, output: Any) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


_READERS: dict[str, _Reader] = {
    "apply_patch_call": _call("apply_patch", "operation"),
    "apply_patch_call_output": _output,
    "computer_call": _computer_call,
    "computer_call_output": _computer_output,
    "local_shell_call": _call("local_shell", "action"),
    "local_shell_call_output": _output,
    "mcp_call": _mcp_call,
    "shell_call": _call("shell", "action"),
    "shell_call_output": _shell_output,
}
REPLACED_BY_NOTE = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""Kinds of which only a note remains: they lack their results, or have no meaning for gpt-oss."""

STATUSES = ("searching", "interpreting", "generating", "calling", "failed")
"""Further values of `status`, which only items of these kinds may have."""

KINDS = REPLACED_BY_NOTE | _READERS.keys()
