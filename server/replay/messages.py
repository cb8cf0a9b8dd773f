"""Reads the messages of the Chat Completions API as harmony messages.

Source: https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harmony import names
from harmony.messages import Author, Channel, Message, Role
from server.replay.chat_turns import client_calls, restore_turn
from server.replay.content import text_of
from server.replay.conversation import developer
from server.replay.merged_turns import MergedTurns
from server.replay.preambles import before_calls
from server.replay.reasoning_fields import reasoning_of
from server.replay.sealed_items import Unseal
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import array, invalid, label, mapping, optional_string, required, string

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NOT_IN_USER_NAME = frozenset("<|\\/>")
_MAX_USER_NAME = 64
_RESULTS = ("tool", "function")
_CALL_BODIES = {"function": "arguments", "custom": "input"}

MessagesUpToCall = Mapping[str, Sequence[Message]]
"""The sampled messages up to and including each call, by the call's id."""

NO_CALLS: MessagesUpToCall = {}


def call_ids(value: Any) -> list[str]:
    """The ids of all calls in a request's messages. Messages that are not valid are skipped."""
    messages = value if isinstance(value, list) else []
    calls = (
        call
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("tool_calls"), list)
        for call in message["tool_calls"]
    )
    ids = (call.get("id") for call in calls if isinstance(call, dict))
    return [call_id for call_id in ids if isinstance(call_id, str)]


def read_messages(
    value: Any,
    *,
    messages_up_to_call: MessagesUpToCall = NO_CALLS,
    unseal: Unseal,
    json_content: bool = False,
    reasoning_is_secret: bool = False,
) -> list[Message]:
    """The request's messages in order. Raises InvalidRequest naming the message's field.

    messages_up_to_call: the calls that this server made. Unchanged turns get their sampled tokens,
    and reasoning that the client dropped. unseal: decrypts reasoning that the client stored.
    json_content: as in `restore_turn`. reasoning_is_secret: whether clients get no raw reasoning.
    """
    received = array(value, "messages")
    if not received:
        raise invalid("messages", "expected at least one message", "missing_messages")
    checked = [mapping(message, f"messages.{index}") for index, message in enumerate(received)]
    before_call = before_calls(checked, is_user=_is_user, is_call=_has_call)
    recipients: dict[str, str] = {}
    messages: list[Message] = []
    merged = MergedTurns()
    for index, message in enumerate(checked):
        where = f"messages.{index}"
        role = required(message, "role", where, string)
        if role not in _RESULTS:
            messages.extend(merged.rest())
        match role:
            case "system" | "developer":
                messages.append(developer(required(message, "content", where, text_of)))
            case "user":
                messages.append(_user(message, where))
            case "assistant":
                output = reasoning_of(message, where, unseal, is_secret=reasoning_is_secret)
                output += _output(message, where, before_call[index], reasoned=bool(output))
                merged = MergedTurns(call_ids([message]), messages_up_to_call)
                sampled = merged.all()
                turn = restore_turn(
                    output, sampled, json_content=json_content, is_secret=reasoning_is_secret
                )
                recipients |= _recipients(message, turn)
                if turn is not sampled:
                    merged = MergedTurns()
                messages.extend(merged.first() if turn is sampled else turn)
            case "tool" | "function":
                result = _result(message, where, recipients)
                if role == "tool":  # a deprecated result names no call
                    messages.extend(merged.up_to(message["tool_call_id"]))
                messages.append(result)
            case _:
                raise invalid(f"{where}.role", f"expected one of {', '.join(ROLES)}")
    return [*messages, *merged.rest()]


def _recipients(message: dict[str, Any], turn: Sequence[Message]) -> dict[str, str]:
    """The recipients of the message's calls in the prompt, by the calls' ids."""
    ids = call_ids([message])
    calls = client_calls(turn)[-len(ids) :]  # a deprecated `function_call` comes before the others
    return {call_id: call.recipient or "" for call_id, call in zip(ids, calls, strict=False)}


def _is_user(message: dict[str, Any]) -> bool:
    return message.get("role") == "user"


def _has_call(message: dict[str, Any]) -> bool:
    """Also for a result."""
    has_calls = bool(message.get("tool_calls") or message.get("function_call"))
    return has_calls or message.get("role") in _RESULTS


def _user(message: dict[str, Any], where: str) -> Message:
    name = optional_string(message.get("name"), f"{where}.name")
    if name is not None and not _is_user_name(name):
        problem = (
            f"expected 1 to {_MAX_USER_NAME} printable characters without white space or <|\\/>"
        )
        raise invalid(f"{where}.name", problem)
    return Message(Author(Role.USER, name), required(message, "content", where, text_of))


def _is_user_name(name: str) -> bool:
    """The API's rule for names is stricter than that of a harmony header."""
    in_header = names.is_name(name) and _NOT_IN_USER_NAME.isdisjoint(name)
    return in_header and len(name) <= _MAX_USER_NAME


def _output(
    message: dict[str, Any], where: str, before_call: bool, *, reasoned: bool
) -> Iterator[Message]:
    """The text, then the calls: the order in which the model samples them.

    An answer that was cut off in its reasoning has an empty text, and is not one that ended.
    """
    calls = list(_calls(message, where))
    text = _text(message, where)
    if text or (text is not None and not calls and not reasoned):
        channel = Channel.COMMENTARY if before_call else Channel.FINAL
        yield Message(Author(Role.ASSISTANT), text, channel)
    yield from calls


def _text(message: dict[str, Any], where: str) -> str | None:
    for field in ("content", "refusal"):
        if (value := message.get(field)) is not None:
            return text_of(value, f"{where}.{field}", separator="")
    return None


def _calls(message: dict[str, Any], where: str) -> Iterator[Message]:
    if (legacy := message.get("function_call")) is not None:
        yield _call("function", legacy, f"{where}.function_call")
    tool_calls = message.get("tool_calls")
    for index, item in enumerate(array(tool_calls, f"{where}.tool_calls") if tool_calls else ()):
        param = f"{where}.tool_calls.{index}"
        wrapped = mapping(item, param)
        kind = string(wrapped.get("type", "function"), f"{param}.type")
        if kind not in _CALL_BODIES:
            raise invalid(f"{param}.type", "expected 'function' or 'custom'")
        required(wrapped, "id", param, label)  # raises for one that results cannot name
        yield required(wrapped, kind, param, partial(_call, kind))


def _call(kind: str, value: Any, where: str) -> Message:
    """The arguments stay a string: encoded again, they would differ from the sampled ones."""
    call, body = mapping(value, where), _CALL_BODIES[kind]
    return Message(
        Author(Role.ASSISTANT),
        required(call, body, where, string),
        Channel.COMMENTARY,
        recipient(required(call, "name", where, called_name)),
        "json" if kind == "function" else None,
    )


def _result(message: dict[str, Any], where: str, recipients: Mapping[str, str]) -> Message:
    text = required(message, "content", where, text_of)
    if message["role"] == "function":
        caller = recipient(required(message, "name", where, called_name))
    else:
        call_id = required(message, "tool_call_id", where, label)
        if call_id not in recipients:
            raise invalid(
                f"{where}.tool_call_id", f"no tool call with id '{call_id}' comes before it"
            )
        caller = recipients[call_id]
    return Message(Author(Role.TOOL, caller), text, Channel.COMMENTARY, "assistant")
