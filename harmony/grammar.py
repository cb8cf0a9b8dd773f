"""Writes the llguidance grammar of a request, over token ids.

The grammar is Lark text (https://github.com/guidance-ai/llguidance, docs/syntax.md). It describes
the tokens after a prompt that ends with `<|start|>assistant`: reasoning and preambles in any order,
then a call or the answer, and nothing after the token that ends the turn. Header words are written
as their canonical ids. Strings would allow the model to spell them with other tokens. The grammar
allows every form of header that gpt-oss was trained on: the recipient in the role or in the channel
part, the content type with, without or instead of `<|constrain|>`, calls in analysis or commentary.
Code, which built-in tools such as `python` take, has the content type `code` or none.

Nothing is compiled here. The engine reports a schema or a regex that does not compile.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from harmony.messages import Channel
from harmony.parser import ASSISTANT, NEXT_MESSAGE
from harmony.schemas import for_llguidance
from harmony.tokenizer import encode_header_part, encode_with_control
from harmony.tools import FUNCTIONS
from harmony.vocab import CALL, CHANNEL, MESSAGE, RETURN

MAX_GRAMMAR_CHARACTERS = 1 << 19
"""Characters of the longest grammar: a client's, and that of a turn with all tools of a request."""

MAX_LITERAL_BYTES = 48_000
"""Bytes of the longest text that has to be sampled as it stands in a schema, a regex or a Lark
grammar. An engine finds out in one step what is forced next, with a limit on the work (two units
for each byte, of 100,000)."""


_ANY_TEXT = "/(.|\\n)*/"


class InvalidConstraint(ValueError):
    """A regex or a Lark grammar from a client cannot be used. The message says why."""


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text."""


@dataclass(frozen=True, slots=True)
class AnyObject:
    """Any JSON object, with at most one space after each comma and colon."""


@dataclass(frozen=True, slots=True)
class AnyJson:
    """Any JSON value of one type of JSON Schema, None for all types; spaces as in `AnyObject`."""

    type: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaJson:
    """Compact JSON that is valid under a JSON Schema, with properties in the schema's order."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RegexText:
    """Text that a regex matches as a whole; its syntax is Rust's, without lookarounds."""

    pattern: str


@dataclass(frozen=True, slots=True)
class LarkText:
    """Text that a Lark grammar describes; its first rule is `start`, and it names no tokens."""

    grammar: str


Body = FreeText | AnyObject | AnyJson | SchemaJson | RegexText | LarkText


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that may be called. `recipient` is its full name, such as `functions.f`."""

    recipient: str
    body: Body = AnyObject()

    @property
    def takes_code(self) -> bool:
        """Whether the body is code: free text to a tool that is not a function."""
        return self.body == FreeText() and not self.recipient.startswith(f"{FUNCTIONS}.")


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """The output that a request allows.

    tools: the tools that the tool choice allows; without any, calls are not allowed.
    call_required: whether the turn has to end with a call; needs at least one tool.
    answer: the content of the final message.
    reasoning: whether reasoning is allowed in the analysis channel. Calls are allowed there anyway.
    reasoning_budget: the maximum of tokens of reasoning, which is then one message; None for no
    limit, 0 for no reasoning.
    preambles: whether text for the user is allowed before the call or the answer.
    parallel_calls: whether more calls may follow a call. `<|return|>` ends such a turn, and
    `<|call|>` must not be a stop token. gpt-oss was not trained on this.
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
    reasons = spec.reasoning and spec.reasoning_budget != 0
    bounded = reasons and spec.reasoning_budget is not None
    rules = [
        f"start: {_turn(reasons=reasons, bounded=bounded, preambles=spec.preambles)}",
        f"last: {' | '.join(_last_messages(spec))}",
    ]
    if spec.preambles:
        rules += [
            f"preamble: {_ids(_header(Channel.COMMENTARY))} text {_ids(NEXT_MESSAGE)}",
            f"text: {_ANY_TEXT}",
        ]
    if reasons:
        limit = f"[max_tokens={spec.reasoning_budget}]" if bounded else ""
        rules += [
            f"reasoning: {_ids(_header(Channel.ANALYSIS))} thought {_ids(NEXT_MESSAGE)}",
            f"thought{limit}: {_ANY_TEXT}",
        ]
    if not spec.call_required:
        headers = " | ".join(map(_ids, final_headers()))
        rules += [f"final: ({headers}) answer {_id(RETURN)}", _rule("answer", spec.answer)]
    if spec.tools:
        rules += _call_rules(spec)
    return _lark(rules)


def answer_grammar(spec: GrammarSpec) -> str:
    """The Lark text for the tokens after the header of the final message.

    Raises InvalidConstraint.
    """
    return _lark([f"start: answer {_id(RETURN)}", _rule("answer", spec.answer)])


def after_hosted_call(spec: GrammarSpec, reasoned: int = 0) -> GrammarSpec:
    """What the model may sample after the result of a call that the server ran.

    The call was one that the request required, if it required any. reasoned: the tokens of
    reasoning that were sampled since `spec` applied, >= 0, which its budget loses.
    """
    budget = spec.reasoning_budget
    left = None if budget is None else max(budget - reasoned, 0)
    return replace(spec, call_required=False, reasoning_budget=left)


def reasoned_grammar(spec: GrammarSpec) -> str | None:
    """The grammar of `spec` once reasoning has ended, None where it permits none."""
    return turn_grammar(replace(spec, reasoning=False)) if spec.reasoning else None


@cache
def final_headers() -> tuple[tuple[int, ...], ...]:
    """The headers of final messages, as ids after `<|start|>assistant`."""
    words = ("final", "final <|constrain|>json", "final json")
    return tuple(tuple(encode_with_control(f"<|channel|>{word}<|message|>")) for word in words)


def _lark(rules: Iterable[str]) -> str:
    # Some engines recognize a Lark grammar by its first line.
    return "\n".join(["%llguidance {}", *rules, ""])


def _turn(*, reasons: bool, bounded: bool, preambles: bool) -> str:
    # A budget applies to one message, so only one message of reasoning is allowed.
    if bounded:
        return "reasoning? preamble* last" if preambles else "reasoning? last"
    messages = [*(["reasoning"] if reasons else []), *(["preamble"] if preambles else [])]
    return f"({' | '.join(messages)})* last" if messages else "last"


def _last_messages(spec: GrammarSpec) -> Iterable[str]:
    if not spec.call_required:
        yield "final"
    if spec.tools and spec.parallel_calls:
        yield f"call ({_ids(ASSISTANT)} call)* {_id(RETURN)}"
    elif spec.tools:
        yield "call"


def _call_rules(spec: GrammarSpec) -> Iterable[str]:
    """The rules of calls, with few symbols per tool: engines limit their number, and each costs
    time.
    """
    channels = " | ".join(_ids(encode_header_part(channel)) for channel in _CALL_CHANNELS)
    yield f"in_channel: {_id(CHANNEL)} ({channels})"
    opened = ["opened_code" if tool.takes_code else "opened" for tool in spec.tools]
    for rule, forms in (("opened", _JSON_TYPES), ("opened_code", _CODE_TYPES)):
        if rule in opened:
            types = " | ".join(map(_ids, _content_types(forms)))
            yield f"{rule}: ({types})? {_id(MESSAGE)}"
    bodies: dict[str, str] = {}
    inputs = [bodies.setdefault(_body(tool.body), f"input_{len(bodies)}") for tool in spec.tools]
    yield from (f"{name}: {body}" for body, name in bodies.items())
    recipients = [encode_header_part(f" to={tool.recipient}") for tool in spec.tools]
    common = _common_prefix(recipients)
    to, names = _ids(recipients[0][:common]), [_ids(each[common:]) for each in recipients]
    yield f"call: (in_channel {to} after | {to} before) {_id(CALL)}"
    tails = [f"{header} {body}" for header, body in zip(opened, inputs, strict=True)]
    for rule, between in (("after", ""), ("before", "in_channel ")):
        calls = (f"{name} {between}{tail}" for name, tail in zip(names, tails, strict=True))
        yield f"{rule}: {' | '.join(calls)}"


def _common_prefix(sequences: Sequence[tuple[int, ...]]) -> int:
    """The length of the longest common prefix."""
    first, last = min(sequences), max(sequences)
    differences = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return next(differences, len(first))


_CALL_CHANNELS = (Channel.COMMENTARY, Channel.ANALYSIS)


_JSON_TYPES = (" <|constrain|>json", "<|constrain|>json", " json", " code")
_CODE_TYPES = (" code", " <|constrain|>code", "<|constrain|>code")


@cache
def _content_types(forms: tuple[str, ...]) -> tuple[Sequence[int], ...]:
    return tuple(tuple(encode_with_control(form)) for form in forms)


def _rule(name: str, body: Body) -> str:
    return f"{name}: {_body(body)}"


def _body(body: Body) -> str:
    match body:
        case FreeText():
            return _ANY_TEXT
        case AnyObject():
            return _json({"type": "object"}, _SPACED)
        case AnyJson(kind):
            return _json({} if kind is None else {"type": kind}, _SPACED)
        case SchemaJson(schema):
            return _json(for_llguidance(schema), _COMPACT)
        case RegexText(pattern):
            return _regex(pattern)
        case LarkText(grammar):
            return _nested(grammar)


# With unlimited white space, a weak model can fill its context with it.
_COMPACT = {"whitespace_flexible": False}
_SPACED = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}


def _json(schema: Mapping[str, Any], style: Mapping[str, Any]) -> str:
    try:
        text = json.dumps({**schema, "x-guidance": style}, separators=(",", ":"), allow_nan=False)
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidConstraint(f"the schema is not JSON: {error}") from error
    if len(text) > MAX_LITERAL_BYTES:
        _check_literals(json.dumps(one, ensure_ascii=False) for one in _texts(schema))
    return f"%json {text}"


# Their texts are not sampled, or not as they stand.
_NO_LITERALS = frozenset({"$comment", "default", "description", "examples", "pattern", "title"})


def _texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of properties and the constants in a schema, among other texts."""
    waiting: list[Any] = [schema]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case Mapping() as value:
                yield from value
                waiting += (part for name, part in value.items() if name not in _NO_LITERALS)
            case [*parts]:
                waiting += parts


def _check_literals(literals: Iterable[str]) -> None:
    if any(len(literal.encode(errors="surrogatepass")) > MAX_LITERAL_BYTES for literal in literals):
        raise InvalidConstraint(f"a text in it has more than {MAX_LITERAL_BYTES:,} bytes")


_SLASH_OR_ESCAPE = re.compile(r"\\.|/", re.DOTALL)
_LITERAL = re.compile(r"(?:[^\\\[\](){}.*+?|^$]|\\[^A-Za-z0-9])++")
_ESCAPED = {"/": r"\/", "\\\n": r"\n", "\\\r": r"\r"}


def _regex(pattern: str) -> str:
    """`pattern` as a Lark regex, which is always anchored. Slashes are escaped.

    Line ends stay: with the flag `x` they end comments, and are no text.
    """
    _check_unicode(pattern)
    backslashes = len(pattern) - len(pattern.rstrip("\\"))
    if backslashes % 2:
        raise InvalidConstraint("the regex ends in a lone backslash")
    body = pattern.removeprefix("^")
    unanchored = body.removesuffix("$")
    if (len(unanchored) - len(unanchored.rstrip("\\"))) % 2 == 0:
        body = unanchored
    if not body:
        return '""'
    if len(body) > MAX_LITERAL_BYTES:
        _check_literals(_LITERAL.findall(body))
    return f"/{_SLASH_OR_ESCAPE.sub(lambda match: _ESCAPED.get(match[0], match[0]), body)}/"


# What llguidance's lexer reads at one place, or less. To read less is safe: the grammar is refused.
# To read more would not be: what is text here could be a rule there. Possessive repetitions keep
# the time linear.
_PART = re.compile(
    r"(?P<blank>[ \t]+|(?:\r?\n)+|(?:#|//)[^\n]*)"
    r'|(?P<string>"(?:\\(?:["\\/bfnrt]|u[a-fA-F0-9]{4})|[^"\\\x00-\x1f\x7f])*+"i?)'
    r"|(?P<regex>/(?:\\.|[^/\\])++/[imslux]*)"
    r"|(?P<json>%(?:json|regex)[ \t\r\n]*)"
    r"|(?P<plain>[\w!?*+.,:=|>(){}\[\]-]+|~[ \t]*(?=[0-9])|%(?:ignore|import|if))",
    re.ASCII,
)
_JSON = json.JSONDecoder()
_UNSAFE_PARTS = {
    "<": "special tokens",
    "@": "other grammars",
    # The lexer takes minutes for a few dozen intersected regexes.
    "&": "intersections",
    # It matches bytes that are not UTF-8, and control tokens are such bytes.
    "~": "the not operator",
    "%l": "%llguidance or %lark",
}
# With an empty text or with a regex, `<|endoftext|>` may end the text, or nothing can. Others are
# refused too, and so is an optional rule of the name `lazy`: what is safe is hard to tell.
_UNSAFE_ATTRIBUTES = {
    re.compile(r"\bstop\s*="): "stop=",
    re.compile(r"\bsuffix\s*="): "suffix=",
    re.compile(r"[\[,]\s*lazy\s*[,\]]"): "[lazy]",
}


def _nested(grammar: str) -> str:
    """A client's grammar as a value. It can name no token, and nothing outside of itself."""
    if len(grammar) > MAX_GRAMMAR_CHARACTERS:
        raise InvalidConstraint(f"the grammar has more than {MAX_GRAMMAR_CHARACTERS:,} characters")
    _check_unicode(grammar)
    rules = _without_literals(grammar)
    for pattern, name in _UNSAFE_ATTRIBUTES.items():
        if pattern.search(rules):
            raise InvalidConstraint(f"the grammar may not use {name}")
    if not _balanced(rules):
        raise InvalidConstraint("the grammar's braces do not match")
    return f"%lark {{\n{grammar}\n}}"


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint("lone surrogates are no text") from error


def _without_literals(grammar: str) -> str:
    """A grammar with spaces for its strings, regexes, JSON and comments.

    Raises InvalidConstraint for what it may not use, and for what llguidance cannot read.
    """
    place, rules = 0, []
    while place < len(grammar):
        part = _PART.match(grammar, place)
        if part is None:
            raise InvalidConstraint(_refusal(grammar, place))
        rules.append(part["plain"] or " ")
        if part.end() - place > MAX_LITERAL_BYTES:
            _check_literals([part["string"] or "", *_LITERAL.findall(part["regex"] or "")])
        place = _json_end(grammar, part.end()) if part["json"] else part.end()
    return "".join(rules)


def _json_end(grammar: str, place: int) -> int:
    try:
        return _JSON.raw_decode(grammar, place)[1]
    except (RecursionError, ValueError) as error:
        raise InvalidConstraint(f"the grammar's JSON cannot be read: {error}") from error


def _refusal(grammar: str, place: int) -> str:
    for part, name in _UNSAFE_PARTS.items():
        if grammar.startswith(part, place):
            return f"the grammar may not use {name}"
    return f"the grammar cannot be read at line {grammar.count(chr(10), 0, place) + 1}"


def _balanced(rules: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", rules):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _header(channel: Channel) -> Sequence[int]:
    return (CHANNEL, *encode_header_part(channel), MESSAGE)


def _id(token: int) -> str:
    return f"<[{token}]>"


def _ids(tokens: Iterable[int]) -> str:
    return " ".join(map(_id, tokens))
