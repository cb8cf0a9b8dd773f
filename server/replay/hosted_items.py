"""Reads the items of hosted tools in a history as harmony messages.

A call that this server ran comes back with the sampled call and the result that the model read. A
call from elsewhere has neither. Code with its output is shown as the model was trained, if the
request has a tool that runs code; what remains is read by `unsupported_items`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.replay.arguments import same_arguments
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import array, mapping, optional_string, required, string
from server.store.items import Item, StoredItem

CODE = "code_interpreter_call"
MCP = "mcp_call"
APPROVAL_REQUEST = "mcp_approval_request"
APPROVAL_RESPONSE = "mcp_approval_response"
LISTING = "mcp_list_tools"

CALLS = frozenset({CODE, "web_search_call", MCP})
"""The types of the items that show a call of a hosted tool."""

OUTPUT = CALLS | {APPROVAL_REQUEST, LISTING}
"""The types of items of hosted tools that an answer has."""

TYPES = OUTPUT | {APPROVAL_RESPONSE}
"""The types of items of hosted tools that a history has."""

ABOUT_MCP = frozenset({APPROVAL_REQUEST, APPROVAL_RESPONSE, LISTING})
"""The types of items that the model need not read: they are about servers, or about calls."""

MAX_REASON = 4096
"""Characters of the reason of a refusal that the model gets."""

_OUTPUT_LEFT_OUT = "[output left out]"
_COMPARED = {
    CODE: ("code", "container_id"),
    "web_search_call": ("action",),
    MCP: ("server_label", "name", "arguments", "output"),
    APPROVAL_REQUEST: ("server_label", "name", "arguments"),
}
# Clients get it only where they ask for it.
_OPTIONAL = frozenset({"sources"})

Enabled = Mapping[str, str]
"""The item types of the request's hosted tools, with the recipient of code, "" for other tools."""


def same_call(item: Item, ours: Item) -> bool:
    """Whether an item of a hosted tool is the one that the server made.

    Fields that the client left out, or sent as null, are the same. Other types of items are the
    same in any case.
    """
    names = _COMPARED.get(item["type"], ())
    return all(_same(name, item.get(name), ours.get(name)) for name in names)


def compared(item: Item) -> Item:
    """The part of an item of a hosted tool that `same_call` reads."""
    return {name: item.get(name) for name in ("id", "type", *_COMPARED.get(item["type"], ()))}


def _same(name: str, value: Any, ours: Any) -> bool:
    if value is None or name in _OPTIONAL:
        return True
    if isinstance(value, dict) and isinstance(ours, dict):
        return all(_same(key, each, ours.get(key)) for key, each in value.items())
    if name == "arguments" and isinstance(value, str) and isinstance(ours, str):
        return same_arguments(value, ours)
    return bool(value == ours)


class HostedItems:
    """The items of hosted tools in one history.

    items: the whole history. received: the part of it that the request itself has. enabled: the
    hosted tools of the request.
    """

    def __init__(
        self, items: Sequence[StoredItem], received: Iterable[StoredItem], enabled: Enabled
    ) -> None:
        self._enabled = enabled
        calls = [stored for stored in items if stored.item["type"] == MCP]
        ran = {_approval(stored.item) for stored in calls if stored.result is not None}
        approved = {
            _approval(stored.item)
            for stored in received
            if stored.item["type"] == APPROVAL_RESPONSE and stored.item.get("approve") is True
        }
        self._refusals = {
            _approval(stored.item): refusal(stored.item.get("reason"))
            for stored in items
            if stored.item["type"] == APPROVAL_RESPONSE and stored.item.get("approve") is not True
        }
        # Where the server stored nothing, an item `mcp_call` stands for the call and its result.
        elsewhere = {_approval(stored.item) for stored in calls if stored.result is None}
        self._runs = ran | (approved - elsewhere)
        self._requested: set[str | None] = set()

    def read(self, stored: StoredItem, where: str, *, earlier: bool) -> Sequence[Message] | None:
        """The messages of an item; None for one that is not read here.

        earlier: whether the item is of an earlier turn. Raises InvalidRequest whose `param` is
        under `where`.
        """
        item = stored.item
        kind = item["type"]
        is_read = earlier or MCP in self._enabled
        if kind == APPROVAL_REQUEST and (is_read or stored.message is not None):
            return self._approval_request(item, stored.message, where)
        if kind in ABOUT_MCP:
            return () if is_read else None
        if kind not in CALLS:
            return None
        if stored.message is not None or stored.result is not None:
            return self._ran_here(stored)
        if kind == CODE and (recipient := self._enabled.get(CODE)):
            return _code(item, recipient, where)
        return None

    def _ran_here(self, stored: StoredItem) -> Sequence[Message] | None:
        """The call and its result. A call that was cut off has none, and is left out."""
        if stored.result is None:
            return ()
        # A call that had to be approved was sampled in the answer that requested the approval.
        if _approval(stored.item) in self._requested:
            return (stored.result,)
        return None if stored.message is None else (stored.message, stored.result)

    def _approval_request(
        self, item: Item, sampled: Message | None, where: str
    ) -> Sequence[Message]:
        """The call, if it ran later, or is going to run now, or was refused."""
        request_id = item["id"]
        if request_id in self._refusals:
            call = sampled or _requested_call(item, where)
            text = self._refusals[request_id]
            author = Author(Role.TOOL, call.recipient)
            return call, Message(author, text, call.channel, "assistant")
        if request_id not in self._runs:
            return ()
        self._requested.add(request_id)
        return (sampled or _requested_call(item, where),)


def refusal(reason: Any) -> str:
    """The result that the model gets for a call that the client refused."""
    text = "The user refused this tool call. Do not repeat it unchanged."
    reason = reason.strip()[:MAX_REASON] if isinstance(reason, str) else ""
    return f"{text} Reason: {reason}" if reason else text


def _requested_call(item: Item, where: str) -> Message:
    """The call that a request for approval shows, where the server did not store it."""
    label = required(item, "server_label", where, called_name)
    name = required(item, "name", where, called_name)
    arguments = required(item, "arguments", where, string)
    to = recipient(name, label)
    return Message(Author(Role.ASSISTANT), arguments, Channel.COMMENTARY, to, "json")


def _approval(item: Item) -> str | None:
    """The id of the request for approval that an item names; None where it names none."""
    request_id = item.get("approval_request_id")
    return request_id if isinstance(request_id, str) else None


def _code(item: Item, recipient: str, where: str) -> Sequence[Message]:
    """A call from elsewhere, with what the code printed."""
    code = optional_string(item.get("code"), f"{where}.code") or ""
    call = Message(Author(Role.ASSISTANT), code, Channel.ANALYSIS, recipient, "code")
    text = _printed(item.get("outputs"), f"{where}.outputs")
    result = Message(Author(Role.TOOL, recipient), text, Channel.ANALYSIS, "assistant")
    return call, result


def _printed(value: Any, param: str) -> str:
    if value is None:
        return _OUTPUT_LEFT_OUT
    texts = []
    for index, each in enumerate(array(value, param)):
        output = mapping(each, f"{param}.{index}")
        if output.get("type") == "logs":
            texts.append(required(output, "logs", f"{param}.{index}", string))
        else:
            texts.append("[image]")
    return "\n".join(texts)
