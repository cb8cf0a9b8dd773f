"""Responses' items as harmony messages.

`normalise` turns a request's `input` into full items, `resolve` finds what the model said behind
those that it made, `messages` reads a whole history.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest, NotFound
from server.ids import new_id
from server.replay import unsupported_items
from server.replay.arguments import same_arguments
from server.replay.content import Policy, refuse_left_out, text_of
from server.replay.conversation import developer
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import (
    array,
    invalid,
    label,
    mapping,
    optional_label,
    optional_string,
    string,
)
from server.store.responses.base import Item, StoredItem

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "compaction": "cmp",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_PHASES = {"commentary": Channel.COMMENTARY, "final_answer": Channel.FINAL}
REFERENCE = "item_reference"
_MAX_QUOTE = 64
STATUSES = ("in_progress", "completed", "incomplete")
"""What an item of the model's own kinds may say of itself."""


def normalise(value: Any, param: str = "input") -> list[Item]:
    """The request's `input` as items with `type` and `id`; null and "" are none.

    Raises InvalidRequest for what is no item or of a kind that is not served.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        text = {"type": "input_text", "text": value}
        return [_with_id({"type": "message", "role": "user", "content": [text]})]
    items = [_normal(item, f"{param}.{index}") for index, item in enumerate(array(value, param))]
    _refuse_equal_ids(items, param)
    return items


def _refuse_equal_ids(items: Sequence[Item], param: str) -> None:
    """What is known of an item is found by its id, and lists go on after one."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item["id"] in seen:
            named = item["id"][:_MAX_QUOTE]
            raise invalid(
                f"{param}.{index}.id", f"two items have the id '{named}'", "duplicate_item"
            )
        seen.add(item["id"])


def ids_in(value: Any) -> list[str]:
    """The ids that the store may know: those in a request's `input`, which `normalise` has read."""
    return [item["id"] for item in value if item.get("id")] if isinstance(value, list) else []


def missing() -> InvalidRequest:
    """The error for a request that neither has items nor continues any."""
    return InvalidRequest("The request has no input.", param="input", code="missing_input")


def resolve(
    items: Sequence[Item],
    known: Mapping[str, StoredItem],
    param: str = "input",
    *,
    unsupported: Policy = "placeholder",
) -> tuple[StoredItem, ...]:
    """Each item with what the model said, where it is known and came back unchanged.

    Raises NotFound for a reference to an item that is not known, and InvalidRequest for what the
    policy refuses, referred to or not.
    """
    resolved = tuple(
        _resolve(item, known.get(item["id"]), f"{param}.{index}")
        for index, item in enumerate(items)
    )
    if unsupported == "error":
        meant = [stored.item for stored in resolved]
        refuse_left_out(meant, param)
        unsupported_items.refuse_left_out(meant, param)
    return resolved


def messages(
    history: Sequence[StoredItem], given: Sequence[StoredItem], param: str = "input"
) -> list[Message]:
    """The harmony messages of earlier turns' items and of the request's own.

    An earlier result whose call was deleted since is left out with it.
    Raises InvalidRequest whose `param` names a given item's field.
    """
    past = _readable(history, "history")
    readable = [*past, *_readable(given, param)]
    before_call = _before_call([item for item, _, _ in readable])
    recipients: dict[str, str] = {}
    read: list[Message] = []
    for index, (item, said, where) in enumerate(readable):
        if item["type"] in _OUTPUTS:
            if index >= len(past) or item["call_id"] in recipients:
                read.append(_output(item, where, recipients))
            continue
        message = said or _read(item, where, spoken_before_call=index in before_call)
        if message is None:
            continue
        if item["type"] in CALLS:
            recipients[item["call_id"]] = message.recipient or ""
        read.append(message)
    return read


def unchanged(item: Item, stored: StoredItem, where: str) -> bool:
    """Whether an item that came back is what the model said in the stored one.

    Raises InvalidRequest whose `param` is under `where`.
    """
    return alike(item, stored) and says(stored, text_in(item, where))


def alike(item: Item, stored: StoredItem) -> bool:
    """Whether an item may be what the model said in the stored one, whatever its text is."""
    said = stored.item
    if stored.message is None or item["type"] != said["type"]:
        return False
    if any(item.get(key) != said.get(key) for key in ("role", "name", "namespace")):
        return False
    return item["type"] != "message" or item.get("phase") in (None, said.get("phase"))


def text_in(item: Item, where: str) -> str | None:
    """What an assistant's message, reasoning or call says, None for reasoning without its text.

    Raises InvalidRequest whose `param` is under `where`.
    """
    read = _read(item, where, spoken_before_call=False)
    return None if read is None else str(read.content)


def says(stored: StoredItem, text: str | None) -> bool:
    """Whether the model said `text` in the stored item.

    Reasoning that comes back without its text was hidden, or the client dropped it. Arguments may
    come back written anew.
    """
    if stored.message is None:
        return False
    if text is not None and stored.item["type"] == "function_call":
        return same_arguments(text, str(stored.message.content))
    return text in (None, stored.message.content)


def _normal(value: Any, where: str) -> Item:
    item = mapping(value, where)
    kind = optional_string(item.get("type"), f"{where}.type")
    optional_label(item.get("id"), f"{where}.id")
    if kind is None:
        kind = REFERENCE if "role" not in item and "id" in item else "message"
    if kind == REFERENCE:
        return {"type": kind, "id": string(item.get("id"), f"{where}.id")}
    if kind not in _PREFIXES and kind not in unsupported_items.KINDS:
        raise invalid(f"{where}.type", f"items of type '{kind}' are not supported")
    return _with_id({**_with_status(item, kind, f"{where}.status"), "type": kind})


def _with_status(item: Item, kind: str, param: str) -> Item:
    """The item, without a status that is null. Raises InvalidRequest for one that is unknown."""
    status = item.get("status")
    if status is None:
        return {key: value for key, value in item.items() if key != "status"}
    known = STATUSES if kind in _PREFIXES else (*STATUSES, *unsupported_items.STATUSES)
    if status not in known:
        raise invalid(param, f"expected {', '.join(known[:-1])} or {known[-1]}")
    return item


def _with_id(item: Item) -> Item:
    return item if item.get("id") else {**item, "id": new_id(_PREFIXES.get(item["type"], "item"))}


def _resolve(item: Item, stored: StoredItem | None, where: str) -> StoredItem:
    if item["type"] == REFERENCE:
        if stored is None:
            raise NotFound(f"Item with id '{item['id']}' not found.", param=f"{where}.id")
        return stored
    if stored is None or not unchanged(item, stored, where):
        return StoredItem(item)
    return StoredItem(item, stored.message)


def _readable(kept: Sequence[StoredItem], param: str) -> list[tuple[Item, Message | None, str]]:
    return [
        (item, stored.message, where)
        for index, stored in enumerate(kept)
        for where in (f"{param}.{index}",)
        for item in unsupported_items.readable(stored.item, where)
    ]


def _before_call(items: Sequence[Item]) -> Collection[int]:
    """Positions after which a call comes before the next user message."""
    positions: set[int] = set()
    call_ahead = False
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if call_ahead:
            positions.add(index)
        if item["type"] in CALLS:
            call_ahead = True
        elif item["type"] == "message" and item.get("role") == "user":
            call_ahead = False
    return positions


def _read(item: Item, where: str, *, spoken_before_call: bool) -> Message | None:
    match item["type"]:
        case "message":
            return _message(item, where, spoken_before_call=spoken_before_call)
        case "reasoning":
            return _reasoning(item, where)
        case "compaction":
            # What it holds is known where it was unsealed.
            return None
        case _:
            return _call(item, where)


def _message(item: Item, where: str, *, spoken_before_call: bool) -> Message:
    role = string(item.get("role"), f"{where}.role")
    content, param = item.get("content"), f"{where}.content"
    match role:
        case "user":
            return Message(Author(Role.USER), text_of(content, param))
        case "system" | "developer":
            return developer(text_of(content, param))
        case "assistant":
            unsaid = Channel.COMMENTARY if spoken_before_call else Channel.FINAL
            channel = _phase(item.get("phase"), f"{where}.phase") or unsaid
            text = text_of(content, param, separator="")
            return Message(Author(Role.ASSISTANT), text, channel)
    raise invalid(f"{where}.role", "expected 'user', 'assistant', 'system' or 'developer'")


def _phase(value: Any, param: str) -> Channel | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in _PHASES:
        raise invalid(param, "expected 'commentary' or 'final_answer'")
    return _PHASES[value]


def _reasoning(item: Item, where: str) -> Message | None:
    content = item.get("content")
    text = "" if content is None else text_of(content, f"{where}.content", separator="")
    return Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS) if text else None


def _call(item: Item, where: str) -> Message:
    body = CALLS[item["type"]]
    label(item.get("call_id"), f"{where}.call_id")
    name = called_name(item.get("name"), f"{where}.name")
    space = item.get("namespace")
    namespace = None if space is None else called_name(space, f"{where}.namespace")
    return Message(
        Author(Role.ASSISTANT),
        string(item.get(body), f"{where}.{body}"),
        Channel.COMMENTARY,
        recipient(name, namespace),
        "json" if item["type"] == "function_call" else None,
    )


def _output(item: Item, where: str, recipients: Mapping[str, str]) -> Message:
    call_id = label(item.get("call_id"), f"{where}.call_id")
    if call_id not in recipients:
        raise invalid(f"{where}.call_id", f"no tool call with call_id '{call_id}' comes before it")
    text = text_of(item.get("output"), f"{where}.output")
    author = Author(Role.TOOL, recipients[call_id])
    return Message(author, text, Channel.COMMENTARY, "assistant")
