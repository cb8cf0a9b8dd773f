"""A request's rules on what may be sampled, as one llguidance grammar over token ids.

The grammar is Lark text (https://github.com/guidance-ai/llguidance, docs/syntax.md) for what
follows a prompt that ends with `<|start|>assistant`: reasoning and preambles in any order, then a
call or the answer, and nothing after the token that ends the turn. Header words stand as their
canonical ids, never as strings, which would let the model spell them from other tokens. Every
header form that gpt-oss was trained on is open: the recipient in the role or in the channel part,
the content type with or without `<|constrain|>` or left out, calls in analysis or commentary.

Pure text: nothing is compiled here; whether a schema or a regex compiles is the engine's to say.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from harmony.messages import Channel
from harmony.parser import ASSISTANT
from harmony.schemas import with_canonical_references
from harmony.tokenizer import encode, encode_with_control
from harmony.vocab import CALL, CHANNEL, END, MESSAGE, RETURN


class InvalidConstraint(ValueError):
    """A client's regex, choice or Lark grammar cannot be part of a grammar; says why."""


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text."""


@dataclass(frozen=True, slots=True)
class AnyObject:
    """Any JSON object, with at most one space after each comma and colon."""


@dataclass(frozen=True, slots=True)
class AnyJson:
    """Any JSON of a type that JSON Schema names, None for all, spaced like `AnyObject`."""

    type: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaJson:
    """Compact JSON that is valid under a JSON Schema; its properties come in the schema's order."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RegexText:
    """Text that a regex of Rust's syntax, without lookarounds, matches as a whole."""

    pattern: str


@dataclass(frozen=True, slots=True)
class ChoiceText:
    """One of some texts."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LarkText:
    """Text of a Lark grammar of its own, whose first rule is `start`; it names no tokens."""

    grammar: str


Body = FreeText | AnyObject | AnyJson | SchemaJson | RegexText | ChoiceText | LarkText


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that may be called; `recipient` is its full name, such as `functions.f`."""

    recipient: str
    body: Body = AnyObject()


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """What a request lets the model say.

    tools: those that its tool choice lets it call; none forbids calls.
    call_required: the turn has to end with a call (with at least one tool).
    answer: what the final message must be.
    reasoning: whether the model may think in the analysis channel (calls may stand there anyway).
    reasoning_budget: the most tokens of reasoning, in one message; None is no bound, 0 is none.
    preambles: whether the model may write for the user before the call or the answer.
    parallel_calls: after a call more may follow, and `<|return|>` ends the turn; `<|call|>` must
    then not stop the sampling. gpt-oss was not trained to go on.
    """

    tools: tuple[CallableTool, ...] = ()
    call_required: bool = False
    answer: Body = FreeText()
    reasoning: bool = True
    reasoning_budget: int | None = None
    preambles: bool = True
    parallel_calls: bool = False


def turn_grammar(spec: GrammarSpec) -> str:
    """The Lark text for a whole turn. Raises InvalidConstraint."""
    thinks = spec.reasoning and spec.reasoning_budget != 0
    bounded = thinks and spec.reasoning_budget is not None
    rules = [
        f"start: {_turn(thinks=thinks, bounded=bounded, preambles=spec.preambles)}",
        f"last: {' | '.join(_lasts(spec))}",
    ]
    if spec.preambles:
        rules += [
            f"preamble: {_ids(_header(Channel.COMMENTARY))} text {_ids(_AGAIN)}",
            "text: /(.|\\n)*/",
        ]
    if thinks:
        limit = f"[max_tokens={spec.reasoning_budget}]" if bounded else ""
        rules += [
            f"reasoning: {_ids(_header(Channel.ANALYSIS))} thought {_ids(_AGAIN)}",
            f"thought{limit}: /(.|\\n)*/",
        ]
    if not spec.call_required:
        headers = " | ".join(map(_ids, final_headers()))
        rules += [f"final: ({headers}) answer {_id(RETURN)}", _rule("answer", spec.answer)]
    if spec.tools:
        rules += _call_rules(spec)
    return _lark(rules)


def answer_grammar(spec: GrammarSpec) -> str:
    """The Lark text for what follows the final message's header. Raises InvalidConstraint."""
    return _lark([f"start: answer {_id(RETURN)}", _rule("answer", spec.answer)])


@cache
def final_headers() -> tuple[tuple[int, ...], ...]:
    """The ways to open a final message, as ids after `<|start|>assistant`."""
    words = ("final", "final <|constrain|>json", "final json")
    return tuple(tuple(encode_with_control(f"<|channel|>{word}<|message|>")) for word in words)


def _lark(rules: Iterable[str]) -> str:
    # Some engines tell Lark from other grammars by the first line.
    return "\n".join(["%llguidance {}", *rules, ""])


def _turn(*, thinks: bool, bounded: bool, preambles: bool) -> str:
    # A budget holds for one message, so there is only one.
    if bounded:
        return "reasoning? preamble* last" if preambles else "reasoning? last"
    before = [*(["reasoning"] if thinks else []), *(["preamble"] if preambles else [])]
    return f"({' | '.join(before)})* last" if before else "last"


def _lasts(spec: GrammarSpec) -> Iterable[str]:
    if not spec.call_required:
        yield "final"
    if spec.tools and spec.parallel_calls:
        yield f"call ({_ids(ASSISTANT)} call)* {_id(RETURN)}"
    elif spec.tools:
        yield "call"


def _call_rules(spec: GrammarSpec) -> Iterable[str]:
    """Few symbols for each tool: engines bound how many there may be, and each takes its time."""
    channels = " | ".join(_ids(_words(channel)) for channel in _CALL_CHANNELS)
    yield f"in_channel: {_id(CHANNEL)} ({channels})"
    types = " | ".join(map(_ids, _content_types()))
    yield f"opened: ({types})? {_id(MESSAGE)}"
    bodies: dict[str, str] = {}
    inputs = [bodies.setdefault(_body(tool.body), f"input_{len(bodies)}") for tool in spec.tools]
    yield from (f"{name}: {body}" for body, name in bodies.items())
    recipients = [_words(f" to={tool.recipient}") for tool in spec.tools]
    common = _common(recipients)
    to, names = _ids(recipients[0][:common]), [_ids(each[common:]) for each in recipients]
    yield f"call: (in_channel {to} after | {to} before) {_id(CALL)}"
    for way, between in (("after", "opened"), ("before", "in_channel opened")):
        calls = (f"{name} {between} {body}" for name, body in zip(names, inputs, strict=True))
        yield f"{way}: {' | '.join(calls)}"


def _common(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many ids all begin with."""
    first, last = min(sequences), max(sequences)
    differing = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return next(differing, len(first))


_CALL_CHANNELS = (Channel.COMMENTARY, Channel.ANALYSIS)


@cache
def _content_types() -> tuple[Sequence[int], ...]:
    forms = (" <|constrain|>json", "<|constrain|>json", " json", " code")
    return tuple(tuple(encode_with_control(form)) for form in forms)


def _rule(name: str, body: Body) -> str:
    return f"{name}: {_body(body)}"


def _body(body: Body) -> str:
    match body:
        case FreeText():
            return "/(.|\\n)*/"
        case AnyObject():
            return _json({"type": "object"}, _SPACED)
        case AnyJson(kind):
            return _json({} if kind is None else {"type": kind}, _SPACED)
        case SchemaJson(schema):
            return _json(with_canonical_references(schema), _COMPACT)
        case RegexText(pattern):
            return _regex(pattern)
        case ChoiceText(options):
            return _choice(options)
        case LarkText(grammar):
            return _nested(grammar)


# Unbounded white space lets a weak model fill its context with it.
_COMPACT = {"whitespace_flexible": False}
_SPACED = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}


def _json(schema: Mapping[str, Any], style: Mapping[str, Any]) -> str:
    try:
        return "%json " + json.dumps(
            {**schema, "x-guidance": style}, separators=(",", ":"), allow_nan=False
        )
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidConstraint(f"the schema is not JSON: {error}") from error


def _choice(options: tuple[str, ...]) -> str:
    if not options:
        raise InvalidConstraint("there is nothing to choose from")
    return " | ".join(json.dumps(option, ensure_ascii=False) for option in options)


_SLASH_OR_ESCAPE = re.compile(r"\\.|[/\n\r]", re.DOTALL)
_ESCAPED = {"/": r"\/", "\n": r"\n", "\r": r"\r", "\\\n": r"\n", "\\\r": r"\r"}


def _regex(pattern: str) -> str:
    """`pattern` as a Lark regex; it is anchored anyway, and cannot end the regex early."""
    escapes = len(pattern) - len(pattern.rstrip("\\"))
    if escapes % 2:
        raise InvalidConstraint("the regex ends in a lone backslash")
    body = pattern.removeprefix("^")
    before = body.removesuffix("$")
    if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
        body = before
    if not body:
        return '""'
    return f"/{_SLASH_OR_ESCAPE.sub(lambda found: _ESCAPED.get(found[0], found[0]), body)}/"


# What llguidance's own lexer takes for a string, a regex or a comment; the rest is grammar.
_QUOTED = re.compile(
    r'"(?:\\(?:["\\/bfnrt]|u[a-fA-F0-9]{4})|[^"\\\x00-\x1f\x7f])*"'
    r"|/(?:\\.|[^/\\])+/|(?:#|//)[^\n]*"
)
_UNSAFE = {
    re.compile(r"<[^<>\s]+>"): "special tokens",
    re.compile(r"@"): "other grammars",
    # A few dozen intersected regexes keep the lexer busy for minutes.
    re.compile(r"&"): "intersections",
    re.compile(r"%(?:llguidance|lark)\b"): "%llguidance or %lark",
    # It matches bytes that are no UTF-8, and control tokens are such bytes.
    re.compile(r"~(?!\s*\d)"): "the not operator",
    # It makes the token that ends a sampling part of the text.
    re.compile(r"\bstop\s*="): "stop=",
}


def _nested(grammar: str) -> str:
    rules = _QUOTED.sub(" ", grammar)
    for unsafe, named in _UNSAFE.items():
        if unsafe.search(rules):
            raise InvalidConstraint(f"the grammar may not use {named}")
    if not _balanced(rules):
        raise InvalidConstraint("the grammar's braces do not match")
    return f"%lark {{\n{grammar}\n}}"


def _balanced(rules: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", rules):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[int, ...]:
    return tuple(encode(text))


_AGAIN = (END, *ASSISTANT)


def _header(channel: Channel) -> Sequence[int]:
    return (CHANNEL, *_words(channel), MESSAGE)


def _id(token: int) -> str:
    return f"<[{token}]>"


def _ids(tokens: Iterable[int]) -> str:
    return " ".join(map(_id, tokens))
