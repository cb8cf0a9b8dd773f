"""Parses sampled turns, and compares them with the expected ones."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo.skills.case import Turn
from harmony.messages import Channel
from harmony.tokenizer import decode

_BODY = r"((?:(?!<\|).)*)"
_TURN = re.compile(
    rf"(?:<\|channel\|>analysis<\|message\|>{_BODY}<\|end\|><\|start\|>assistant)?"
    rf"(?:<\|channel\|>final<\|message\|>{_BODY}<\|return\|>"
    rf"|<\|channel\|>commentary to=functions\.([\w-]+) <\|constrain\|>json<\|message\|>{_BODY}"
    r"<\|call\|>)",
    re.DOTALL,
)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """A turn that is valid harmony and ended by itself: an answer, or a call of a function."""

    thought: str
    answer: str | None
    function: str | None
    arguments: str | None


def parse(ids: list[int]) -> SampledTurn | None:
    """The turn in sampled `ids`; None where it is anything but one whole valid turn."""
    found = _TURN.fullmatch(decode(ids))
    if found is None:
        return None
    thought, answer, function, arguments = found.groups()
    return SampledTurn(thought or "", answer, function, arguments)


def expected(turn: Turn) -> SampledTurn:
    """The turn of a case, as `parse` would return it."""
    thought = next((str(m.content) for m in turn.messages if m.channel is Channel.ANALYSIS), "")
    last = turn.messages[-1]
    if last.recipient is None:
        return SampledTurn(thought, str(last.content), None, None)
    return SampledTurn(thought, None, last.recipient.removeprefix("functions."), str(last.content))


def agrees(sampled: SampledTurn | None, target: SampledTurn) -> bool:
    """Whether both call the same with the same arguments, or answer the same; thoughts are free."""
    if sampled is None or sampled.function != target.function or sampled.answer != target.answer:
        return False
    return same_json(sampled.arguments, target.arguments)


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two JSON texts have the same value; broken JSON equals nothing."""
    if one is None or other is None:
        return one is other
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def fits(schema: Mapping[str, Any], arguments: str | None) -> bool:
    """Whether JSON `arguments` are valid for a flat object schema."""
    try:
        value = json.loads(arguments or "")
    except ValueError:
        return False
    fields = schema.get("properties", {})
    if not isinstance(value, dict) or not set(schema.get("required", ())) <= value.keys():
        return False
    return all(name in fields and _fits_one(fields[name], item) for name, item in value.items())


def _fits_one(schema: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, bool) and schema["type"] != "boolean":
        return False
    choices = schema.get("enum")
    return isinstance(value, _TYPES[schema["type"]]) and (choices is None or value in choices)
