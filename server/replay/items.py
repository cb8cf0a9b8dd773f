"""Reads the items of the Responses API as harmony messages.

`normalise` reads a request's `input` as complete items. `resolve` adds the sampled messages of
items that the server made. `messages` reads a whole history.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest, NotFound
from server.ids import new_id
from server.replay import hosted_items, unsupported_items
from server.replay.arguments import same_arguments
from server.replay.cited_text import same_cited_text
from server.replay.content import Policy, refuse_unreadable, text_of
from server.replay.conversation import developer
from server.replay.hosted_items import Enabled, HostedItems
from server.replay.preambles import before_calls
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import (
    array,
    invalid,
    label,
    mapping,
    optional_label,
    optional_string,
    required,
    string,
    wrong_type,
)
from server.schemas.items import ItemStatus
from server.schemas.limits import MAX_HISTORY
from server.store.items import Item, StoredItem

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
"""The types of the calls of the client's tools, with the field of each that has its text."""
CALL_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
"""The types of what these calls gave, which the client sends."""
_PHASES = {"commentary": Channel.COMMENTARY, "final_answer": Channel.FINAL}
REFERENCE = "item_reference"
Readable = tuple[Item, Message | None, str]
"""An item of a kind that this server makes, its sampled message, and the path of its field."""

_MAX_QUOTE = 64
NO_HOSTED_TOOLS: Enabled = {}
STATUSES = get_args(ItemStatus)
"""The values of `status` that items of the kinds which this server makes may have."""


def normalise(value: Any, param: str = "input") -> list[Item]:
    """The request's `input` as items that have a `type` and an `id`; null and "" are no items.

    Raises InvalidRequest for a value that is not an item, or an item whose kind is not supported.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        text = {"type": "input_text", "text": value}
        return [_with_id({"type": "message", "role": "user", "content": [text]})]
    if not isinstance(value, list):
        raise wrong_type(value, param, str, list)
    items = [
        _normalise_item(item, f"{param}.{index}") for index, item in enumerate(array(value, param))
    ]
    refuse_equal_ids(items, (), param)
    return items


def refuse_long_history(items: Sequence[Item], history: Sequence[StoredItem]) -> None:
    """Raises InvalidRequest for items that make a conversation longer than `MAX_HISTORY`.

    items: the request's. history: those that the request continues.
    """
    if len(history) + len(items) > MAX_HISTORY:
        problem = f"with it the conversation would have more than {MAX_HISTORY} items"
        raise invalid("input", problem, "conversation_too_long")


def refuse_equal_ids(
    items: Sequence[Item], history: Sequence[StoredItem], param: str = "input"
) -> None:
    """Ids have to be unique: items are looked up by id, and pages of a list continue after one.

    items: the request's. history: those that the request continues, as they are now; another
    request may add to them before this one does.

    Raises InvalidRequest, as OpenAI does, for an id that two items have.
    """
    seen = {stored.item["id"] for stored in history}
    for index, item in enumerate(items):
        if item["id"] in seen:
            quoted = item["id"][:_MAX_QUOTE]
            raise invalid(
                f"{param}.{index}.id", f"two items have the id '{quoted}'", "duplicate_item"
            )
        seen.add(item["id"])


def ids_in(value: Any) -> list[str]:
    """The ids that a request's `input` has itself, to look up in the store.

    value: an `input` that `normalise` accepts.
    """
    return [item["id"] for item in value if item.get("id")] if isinstance(value, list) else []


def paths_of(items: Sequence[Item]) -> dict[str, str]:
    """The path of the field of each item of a request's `input`, by the item's id."""
    return {item["id"]: f"input.{index}" for index, item in enumerate(items)}


def missing() -> InvalidRequest:
    """The error for a request that has no items and continues none."""
    return InvalidRequest("The request has no input.", param="input", code="missing_input")


def resolve(
    items: Sequence[Item],
    known: Mapping[str, StoredItem],
    param: str = "input",
    *,
    unsupported: Policy = "placeholder",
) -> tuple[StoredItem, ...]:
    """Each item, with its sampled message, and its result, where the client did not change it.

    known: the stored items, by id. unsupported: what becomes of input that the model cannot read.

    Raises NotFound for a reference to an item that is not in `known`, and InvalidRequest for input
    that `unsupported` refuses, in an item of the request or in one that it refers to.
    """
    resolved = tuple(
        _resolve(item, known.get(item["id"]), f"{param}.{index}")
        for index, item in enumerate(items)
    )
    if unsupported == "error":
        plain = [stored.item for stored in resolved]
        refuse_unreadable(plain, param)
        own = {stored.item["id"] for stored in resolved if _is_own(stored)}
        unsupported_items.refuse_unreadable(plain, param, own)
    return resolved


def messages(
    history: Sequence[StoredItem],
    received: Sequence[StoredItem],
    param: str = "input",
    *,
    enabled: Enabled = NO_HOSTED_TOOLS,
    paths: Mapping[str, str] | None = None,
    reasoning_is_secret: bool = False,
) -> list[Message]:
    """The harmony messages of the items of earlier turns and of the request.

    A call that was cut off and has no result is left out. history: items of earlier turns. A result
    whose call has been deleted is skipped. received: items of the request. enabled: the hosted
    tools of the request. paths: of received items, by their ids, where `received` has items that
    the client did not send, or lacks some that it sent. reasoning_is_secret: whether clients get no
    raw reasoning. Reasoning that they send as a text is a guess then, and is left out: how much of
    the prompt was cached would tell how far it is right.

    Raises InvalidRequest whose `param` names a received item's field.
    """
    hosted = HostedItems([*history, *received], received, enabled)
    earlier = _readable(history, "history", hosted, None, earlier=True)
    own = _readable(received, param, hosted, paths, earlier=False)
    answered = {
        str(item.get("call_id")) for item, _, _ in (*earlier, *own) if item["type"] in CALL_OUTPUTS
    }
    earlier, own = (_without_cut_calls(each, answered) for each in (earlier, own))
    readable = [*earlier, *own]
    before_call = before_calls([item for item, _, _ in readable], is_user=is_user, is_call=_is_call)
    recipients: dict[str, str] = {}
    messages: list[Message] = []
    for index, (item, sampled, where) in enumerate(readable):
        if item["type"] in CALL_OUTPUTS:
            if index >= len(earlier) or item["call_id"] in recipients:
                messages.append(_output(item, where, recipients))
            continue
        message = sampled or _read(item, where, before_call=before_call[index])
        is_guess = reasoning_is_secret and item["type"] == "reasoning" and sampled is None
        if message is None or is_guess:
            continue
        if item["type"] in CALLS:
            recipients[item["call_id"]] = message.recipient or ""
        messages.append(message)
    return messages


def _is_own(stored: StoredItem) -> bool:
    """Whether the item needs no note: this server made it, or the model need not read it."""
    return stored.item["type"] in hosted_items.ABOUT_MCP or stored.message is not None


def unchanged(item: Item, stored: StoredItem, where: str) -> bool:
    """Whether the client sent an item back as the server made it.

    Raises InvalidRequest whose `param` is under `where`.
    """
    return same_header(item, stored) and has_text(stored, item_text(item, where))


def same_header(item: Item, stored: StoredItem) -> bool:
    """Whether an item has the kind, role, name and phase of one that the model made.

    A message that comes back without its phase has the same one. An approved call has only its
    result here: the item that asked for the approval has the message.
    """
    ours = stored.item
    is_ours = stored.message is not None or stored.result is not None
    if not is_ours or item["type"] != ours["type"]:
        return False
    if item["type"] in hosted_items.OUTPUT:
        return hosted_items.same_call(item, ours)
    if any(item.get(key) != ours.get(key) for key in ("role", "name", "namespace")):
        return False
    return item["type"] != "message" or item.get("phase") in (None, ours.get("phase"))


def item_text(item: Item, where: str) -> str | None:
    """The text of an assistant's message, reasoning or call; None for reasoning without text.

    None for an item of a hosted tool too: `same_header` compares all of it.

    Raises InvalidRequest whose `param` is under `where`.
    """
    if item["type"] in hosted_items.OUTPUT:
        return None
    message = _read(item, where, before_call=False)
    return None if message is None else str(message.content)


def has_text(stored: StoredItem, text: str | None) -> bool:
    """Whether the model sampled `text` in the stored item; None, for any, is always true.

    Reasoning comes back without its text where it was hidden, or where the client dropped it.
    Arguments may come back formatted differently, and messages with links for citation markers.
    """
    if text is None:
        return True
    if stored.message is None:
        return False
    sampled = str(stored.message.content)
    if text == sampled:
        return True
    match stored.item["type"]:
        case "function_call":
            return same_arguments(text, sampled)
        case "message":
            return same_cited_text(text, sampled)
    return False


def _normalise_item(value: Any, where: str) -> Item:
    item = mapping(value, where)
    kind = optional_string(item.get("type"), f"{where}.type")
    optional_label(item.get("id"), f"{where}.id")
    if kind is None:
        kind = REFERENCE if "role" not in item and "id" in item else "message"
    if kind == REFERENCE:
        return {"type": kind, "id": required(item, "id", where, string)}
    if kind not in _PREFIXES and kind not in unsupported_items.KINDS:
        raise invalid(f"{where}.type", f"items of type '{kind}' are not supported")
    return _with_id({**_with_status(item, kind, f"{where}.status"), "type": kind})


def _with_status(item: Item, kind: str, param: str) -> Item:
    """The item, without a `status` that is null. Raises InvalidRequest for an unknown status."""
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
    return StoredItem(item, stored.message, stored.result)


def _readable(
    items: Sequence[StoredItem],
    param: str,
    hosted: HostedItems,
    paths: Mapping[str, str] | None,
    *,
    earlier: bool,
) -> list[Readable]:
    """The items in kinds that this server makes. earlier: whether they are of earlier turns."""
    readable: list[Readable] = []
    for index, stored in enumerate(items):
        where = f"{param}.{index}"
        if paths:
            where = paths.get(stored.item["id"], where)
        messages = hosted.read(stored, where, earlier=earlier)
        if messages is not None:
            readable += ((stored.item, message, where) for message in messages)
            continue
        for item in unsupported_items.readable(stored.item, where):
            readable.append((item, stored.message, where))
    return readable


def _without_cut_calls(readable: Iterable[Readable], answered: Container[str]) -> list[Readable]:
    """Without the calls that were cut off. answered: the ids of those that have a result."""
    return [
        (item, sampled, where)
        for item, sampled, where in readable
        if item["type"] not in CALLS
        or item.get("status") != "incomplete"
        or str(item.get("call_id")) in answered
    ]


def is_user(item: Item) -> bool:
    """Whether it is a message of the user."""
    return item["type"] == "message" and item.get("role") == "user"


def _is_call(item: Item) -> bool:
    """Also for a result of a client's call, and for a note about another server's call."""
    kind: str = item["of"] if item["type"] == unsupported_items.NOTE else item["type"]
    return kind.endswith("_call") or kind in CALL_OUTPUTS or kind == hosted_items.APPROVAL_REQUEST


def _read(item: Item, where: str, *, before_call: bool) -> Message | None:
    match item["type"]:
        case "message":
            return _message(item, where, before_call=before_call)
        case "reasoning":
            return _reasoning(item, where)
        case "compaction":
            # Its message comes from its seal, never from its fields.
            return None
        case unsupported_items.NOTE:
            # A plain text: as `DeveloperContent` it would be one of the instructions.
            return Message(Author(Role.DEVELOPER), item["text"])
        case _:
            return _call(item, where)


def _message(item: Item, where: str, *, before_call: bool) -> Message:
    role = required(item, "role", where, string)
    match role:
        case "user":
            return Message(Author(Role.USER), required(item, "content", where, text_of))
        case "system" | "developer":
            return developer(required(item, "content", where, text_of))
        case "assistant":
            default = Channel.COMMENTARY if before_call else Channel.FINAL
            channel = _phase(item.get("phase"), f"{where}.phase") or default
            text = required(item, "content", where, partial(text_of, separator=""))
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
    if isinstance(content, list) and any(map(_is_summary, content)):
        # Summaries are never given back to the model.
        content = [part for part in content if not _is_summary(part)] or None
    text = "" if content is None else text_of(content, f"{where}.content", separator="")
    return Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS) if text else None


def _is_summary(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "summary_text"


def _call(item: Item, where: str) -> Message:
    body = CALLS[item["type"]]
    required(item, "call_id", where, label)
    name = required(item, "name", where, called_name)
    namespace = item.get("namespace")
    if namespace is not None:
        namespace = called_name(namespace, f"{where}.namespace")
    return Message(
        Author(Role.ASSISTANT),
        required(item, body, where, string),
        Channel.COMMENTARY,
        recipient(name, namespace),
        "json" if item["type"] == "function_call" else None,
    )


def _output(item: Item, where: str, recipients: Mapping[str, str]) -> Message:
    call_id = required(item, "call_id", where, label)
    if call_id not in recipients:
        raise invalid(f"{where}.call_id", f"no tool call with call_id '{call_id}' comes before it")
    text = required(item, "output", where, text_of)
    author = Author(Role.TOOL, recipients[call_id])
    return Message(author, text, Channel.COMMENTARY, "assistant")
