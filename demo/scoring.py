"""Parses sampled turns, and compares them with the expected ones."""

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.skills.case import Turn
from harmony.messages import Channel
from harmony.tokenizer import decode

_BODY = r"((?:(?!<\|).)*)"
_TURN = re.compile(
    rf"(?:<\|channel\|>analysis<\|message\|>{_BODY}<\|end\|><\|start\|>assistant)?"
    rf"(?:<\|channel\|>final<\|message\|>{_BODY}<\|return\|>"
    r"|<\|channel\|>(?:commentary to=(functions\.[\w-]+) <\|constrain\|>json"
    r"|analysis to=(python|browser\.(?:search|open|find)) code)"
    rf"<\|message\|>{_BODY}<\|call\|>)",
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
_MARKER = re.compile(r"【(\d+)†L(\d+)(?:-L(\d+))?】")
_CURSOR = re.compile(r"\[(\d+)\] ")
_LINE = re.compile(r"^L(\d+): (.*)$", re.MULTILINE)
_HELD = 0.8
_SAID = 0.5
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_ROUNDED = 1e-12
"""The relative difference of equal sums that were rounded in another order."""
_MOST_CITED = 6
"""The lines of one citation that count: a citation of a whole page would support anything."""
_LARGEST = 10**12
_HIGHEST_POWER = 64


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """A turn that is valid harmony and ended by itself: an answer, or a call.

    recipient: the full one, `functions.f`, `python` or `browser.search`. arguments: the text of the
    call, JSON or code.
    """

    thought: str
    answer: str | None
    recipient: str | None
    arguments: str | None


def parse(ids: list[int]) -> SampledTurn | None:
    """The turn in sampled `ids`; None where it is anything but one whole valid turn."""
    found = _TURN.fullmatch(decode(ids))
    if found is None:
        return None
    thought, answer, function, hosted, arguments = found.groups()
    return SampledTurn(thought or "", answer, function or hosted, arguments)


def expected(turn: Turn) -> SampledTurn:
    """The turn of a case, as `parse` would return it."""
    thoughts = (
        str(m.content)
        for m in turn.messages
        if m.channel is Channel.ANALYSIS and m.recipient is None
    )
    thought, last = next(thoughts, ""), turn.messages[-1]
    if last.recipient is None:
        return SampledTurn(thought, str(last.content), None, None)
    return SampledTurn(thought, None, last.recipient, str(last.content))


def identical(sampled: SampledTurn | None, target: SampledTurn) -> bool:
    """Whether both say the same to the letter; thoughts are free."""
    return sampled is not None and (sampled.answer, sampled.recipient, sampled.arguments) == (
        target.answer,
        target.recipient,
        target.arguments,
    )


def agrees(sampled: SampledTurn | None, target: SampledTurn, displays: Sequence[str] = ()) -> bool:
    """Whether both call the same with the same arguments, or answer the same; thoughts are free.

    displays: what the browser has shown. An answer may cite another line than the expected one.
    """
    if sampled is None or sampled.recipient != target.recipient:
        return False
    if target.recipient is None:
        one, other = sampled.answer or "", target.answer or ""
        return one == other or ("†" in other and supported(one, other, displays))
    one, other = sampled.arguments or "", target.arguments or ""
    if target.recipient == "python":
        return same_code(one, other)
    if target.recipient == "browser.search":
        return same_json(one, other) or same_search(one, other)
    return same_json(one, other)


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two JSON texts have the same value; broken JSON equals nothing."""
    if one is None or other is None:
        return one is other
    try:
        return _alike(json.loads(one), json.loads(other))
    except ValueError:
        return False


def _alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; for Python, `true` would equal 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def same_search(one: str, other: str) -> bool:
    """Whether the words of two searches overlap by half."""
    asked = []
    for text in (one, other):
        try:
            value = json.loads(text)
        except ValueError:
            return False
        query = value.get("query") if isinstance(value, dict) else None
        asked.append(set(_words(query)) if isinstance(query, str) else set())
    mine, theirs = asked
    return bool(mine) and 2 * len(mine & theirs) >= max(len(mine), len(theirs))


def same_code(one: str, other: str) -> bool:
    """Whether two codes differ in white space alone, or are arithmetic with the same value."""
    if one.split() == other.split():
        return True
    try:
        mine, theirs = (_expression(ast.parse(code)) for code in (one, other))
        if ast.dump(mine) == ast.dump(theirs):
            return True
        values = _value(mine), _value(theirs)
    # The last two are for code that is nested too deep: a few tokens have thousands of minus signs.
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return None not in values and _close(*values)


def _close(one: float, other: float) -> bool:
    """Whether two numbers are the same but for rounding. A large int may be no float."""
    try:
        return one == other or math.isclose(one, other, rel_tol=_ROUNDED)
    except OverflowError:
        return False


def _expression(code: ast.Module) -> ast.AST:
    match code.body:
        case [ast.Expr(ast.Call(ast.Name("print"), [inner], []))]:
            return inner
        case [ast.Expr(inner)]:
            return inner
    return code


def _value(node: ast.AST) -> Any:
    """The value of simple arithmetic; None for anything else, and for what gets too large."""
    match node:
        case ast.Constant(value) if type(value) in (int, float):
            return value
        case ast.UnaryOp(kind, inner) if type(kind) in _OPERATORS:
            value = _value(inner)
            return None if value is None else _OPERATORS[type(kind)](value)
        case ast.BinOp(left, kind, right) if type(kind) in _OPERATORS:
            return _binary(_OPERATORS[type(kind)], _value(left), _value(right))
    return None


def _binary(apply: Callable[..., Any], left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if apply is operator.pow and (abs(left) > _LARGEST or abs(right) > _HIGHEST_POWER):
        return None
    try:
        value = apply(left, right)
    except (ArithmeticError, ValueError):
        return None
    return value if isinstance(value, int | float) else None


def supported(answer: str, target: str, displays: Sequence[str]) -> bool:
    """Whether an answer has half of the expected words, and cites lines that hold all of these and
    its own, with a few exceptions."""
    shown = _lines(displays)
    cited = [
        shown.get((int(cursor), number), "")
        for cursor, first, last in _MARKER.findall(answer)
        for number in range(int(first), min(int(last or first), int(first) + _MOST_CITED - 1) + 1)
    ]
    held = set(_words(" ".join(cited)))
    mine, theirs = (_words(_MARKER.sub(" ", text)) for text in (answer, target))
    if _share_in(theirs, set(mine)) < _SAID:
        return False
    return _share_in(mine, held) >= _HELD and _share_in(theirs, held) >= _HELD


def _lines(displays: Sequence[str]) -> dict[tuple[int, int], str]:
    """The lines that were shown, by cursor and number."""
    return {
        (int(cursor[1]), int(number)): line
        for text in displays
        if (cursor := _CURSOR.match(text))
        for number, line in _LINE.findall(text)
    }


def _share_in(words: Sequence[str], held: set[str]) -> float:
    return sum(word in held for word in words) / len(words) if words else 0.0


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


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
