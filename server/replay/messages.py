"""Chat's messages as harmony messages.

Source: https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harmony import names
from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.replay.chat_turns import restored
from server.replay.content import text_of
from server.replay.conversation import developer
from server.replay.reasoning_fields import reasoning_of
from server.replay.sealed_items import Unseal
from server.replay.sealing import refuse_seal
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import array, invalid, label, mapping, optional_string, string

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
NOTHING: Mapping[str, Sequence[Message]] = {}
_NOT_IN_USER_NAME = frozenset("<|\\/>")
_MAX_USER_NAME = 64
_CALL_BODIES = {"function": "arguments", "custom": "input"}


Known = Mapping[str, Sequence[Message]]
"""What the model said up to a call, by the call's id."""


def call_ids(value: Any) -> list[str]:
    """The ids of all calls in a request's messages, whatever else may be wrong with these."""
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
    param: str = "messages",
    *,
    known: Known = NOTHING,
    unseal: Unseal = refuse_seal,
) -> list[Message]:
    """The request's messages in order. Raises InvalidRequest naming the message's field.

    known: for the calls that this server made; what comes back as it was is repeated token by
    token, and reasoning that does not come back is restored. unseal: opens reasoning that the
    client kept.
    """
    given = array(value, param)
    if not given:
        raise InvalidRequest(
            f"Invalid value for '{param}': expected at least one message.",
            param=param,
            code="missing_messages",
        )
    checked = [mapping(message, f"{param}.{index}") for index, message in enumerate(given)]
    before_call = _before_call(checked)
    recipients: dict[str, str] = {}
    read: list[Message] = []
    for index, message in enumerate(checked):
        where = f"{param}.{index}"
        match message.get("role"):
            case "system" | "developer":
                read.append(developer(text_of(message.get("content"), f"{where}.content")))
            case "user":
                read.append(_user(message, where))
            case "assistant":
                said = list(_assistant(message, where, recipients, before_call[index]))
                thought = reasoning_of(message, where, unseal)
                read.extend(restored([*thought, *said], _known(message, known)))
            case "tool" | "function":
                read.append(_result(message, where, recipients))
            case _:
                raise invalid(f"{where}.role", f"expected one of {', '.join(ROLES)}")
    return read


def _known(message: dict[str, Any], known: Known) -> Sequence[Message]:
    """What was said up to the last of the message's calls."""
    ids = call_ids([message])
    return known.get(ids[-1], ()) if ids else ()


def _before_call(messages: list[dict[str, Any]]) -> list[bool]:
    """For each message, whether a call comes in or after it, before the next user message."""
    before: list[bool] = []
    ahead = False
    for message in reversed(messages):
        if message.get("role") == "user":
            ahead = False
        elif message.get("tool_calls") or message.get("function_call"):
            ahead = True
        before.append(ahead)
    return before[::-1]


def _user(message: dict[str, Any], where: str) -> Message:
    name = optional_string(message.get("name"), f"{where}.name")
    if name is not None and not _is_user_name(name):
        problem = (
            f"expected 1 to {_MAX_USER_NAME} printable characters without white space or <|\\/>"
        )
        raise invalid(f"{where}.name", problem)
    return Message(Author(Role.USER, name), text_of(message.get("content"), f"{where}.content"))


def _is_user_name(name: str) -> bool:
    """The API's own rule is stricter than a header's."""
    legal = names.is_name(name) and _NOT_IN_USER_NAME.isdisjoint(name)
    return legal and len(name) <= _MAX_USER_NAME


def _assistant(
    message: dict[str, Any], where: str, recipients: dict[str, str], before_call: bool
) -> Iterator[Message]:
    """Text, then calls: the order in which the model speaks them, after its reasoning."""
    calls = list(_calls(message, where, recipients))
    text = _text(message, where)
    if text or (text is not None and not calls):
        channel = Channel.COMMENTARY if before_call else Channel.FINAL
        yield Message(Author(Role.ASSISTANT), text, channel)
    yield from calls


def _text(message: dict[str, Any], where: str) -> str | None:
    for field in ("content", "refusal"):
        if (value := message.get(field)) is not None:
            return text_of(value, f"{where}.{field}", separator="")
    return None


def _calls(message: dict[str, Any], where: str, recipients: dict[str, str]) -> Iterator[Message]:
    if (legacy := message.get("function_call")) is not None:
        yield _call("function", legacy, f"{where}.function_call")
    tool_calls = message.get("tool_calls")
    for index, item in enumerate(array(tool_calls, f"{where}.tool_calls") if tool_calls else ()):
        param = f"{where}.tool_calls.{index}"
        wrapped = mapping(item, param)
        kind = string(wrapped.get("type", "function"), f"{param}.type")
        if kind not in _CALL_BODIES:
            raise invalid(f"{param}.type", "expected 'function' or 'custom'")
        call = _call(kind, wrapped.get(kind), f"{param}.{kind}")
        recipients[label(wrapped.get("id"), f"{param}.id")] = call.recipient or ""
        yield call


def _call(kind: str, value: Any, where: str) -> Message:
    """The arguments stay the string that they were: encoded anew, they were not what was said."""
    call, body = mapping(value, where), _CALL_BODIES[kind]
    return Message(
        Author(Role.ASSISTANT),
        string(call.get(body), f"{where}.{body}"),
        Channel.COMMENTARY,
        recipient(called_name(call.get("name"), f"{where}.name")),
        "json" if kind == "function" else None,
    )


def _result(message: dict[str, Any], where: str, recipients: Mapping[str, str]) -> Message:
    text = text_of(message.get("content"), f"{where}.content")
    if message["role"] == "function":
        caller = recipient(called_name(message.get("name"), f"{where}.name"))
    else:
        call_id = label(message.get("tool_call_id"), f"{where}.tool_call_id")
        if call_id not in recipients:
            raise invalid(
                f"{where}.tool_call_id", f"no tool call with id '{call_id}' comes before it"
            )
        caller = recipients[call_id]
    return Message(Author(Role.TOOL, caller), text, Channel.COMMENTARY, "assistant")
