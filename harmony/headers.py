"""Reads the header of a sampled message. Illegal headers are interpreted leniently.

A header is read from its tokens, without `<|start|>` and `<|message|>`. Nothing here fails: parts
that cannot be interpreted are ignored and reported as a repair.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile

from harmony import names
from harmony.events import Header, Repair
from harmony.messages import Channel, Role
from harmony.tokenizer import decode
from harmony.vocab import CHANNEL, CONSTRAIN, FIRST_SPECIAL, token_bytes

# Control tokens become lone surrogates, which the bytes of no tokens decode to.
_CHANNEL, _CONSTRAIN, _OTHER = "\ud800", "\ud801", "\ud802"
_SPELLED = {CHANNEL: _CHANNEL, CONSTRAIN: _CONSTRAIN}

CONTENT_TYPES = frozenset({"json", "code", "text"})
"""Words that are a content type even without `<|constrain|>`."""

_HEADER_WORDS = CONTENT_TYPES | {"call", "functions", "recipient", "to", "to:", "tool"}
"""Words between a channel and a tool in malformed headers; a text has other words, too."""

_CHANNEL_NAMES = frozenset(Channel)
_CHANNELS = "|".join(Channel)
_TYPES = "|".join(sorted(CONTENT_TYPES))
_BETWEEN = rf"[\s{_CHANNEL}{_CONSTRAIN}{_OTHER}]"
_IN_WORD = rf"[^\s{_CHANNEL}{_CONSTRAIN}{_OTHER}]"
_LEGAL = re.compile(
    rf"assistant(?: to=(?P<to_first>{_IN_WORD}+))?"
    rf"{_CHANNEL}(?P<channel>{_CHANNELS})(?: to=(?P<to>{_IN_WORD}+))?"
    rf"(?: ?{_CONSTRAIN} ?(?P<constrained>[\w.+/-]+)| (?P<type>{_TYPES}))? ?"
)
_PLAIN = r"[\w.:/-]"
"""The characters of a name after which a text can begin, if no declared name has others."""
_PLAIN_NAME = re.compile(rf"{_PLAIN}+")
_ITEM = re.compile(r"(?=\S)(?:(?!to=)\S)*(?P<to>to=\s*(?P<name>\S*))?")
_FIRST_WORD = re.compile(rf"\A{_IN_WORD}+")
_LAST_WORD = re.compile(rf"(?<={_BETWEEN}){_IN_WORD}+\Z")
_AUTHOR = re.compile(rf"\A(?:{Role.ASSISTANT})+")
_NOT_IN_NAME = re.compile(r"[^\w.-]")

_GLUED = CONTENT_TYPES | _CHANNEL_NAMES | {Role.ASSISTANT}
_NOT_RECIPIENTS = frozenset({"", "all", *Role, *Channel})
_OTHER_AUTHORS = frozenset(Role) - {Role.ASSISTANT}
_FUNCTION_NAMESPACES = ("functions.", "function.")
_SHARED_LETTERS = 4
_LONGEST_READ = 8_192
"""The length of the longest header that is read as a whole. All legal headers are far shorter."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The recipient for a name in a header.

    suffix: what followed the name without a space. repair: the departure from the declared name.
    """

    recipient: str
    suffix: str = ""
    repair: Repair | None = None


class Recipients:
    """Finds declared tools by the names in headers.

    declared: full names, such as `functions.f`, `browser.search` and `python`.
    """

    def __init__(self, declared: Iterable[str]) -> None:
        self._longest_first = sorted(declared, key=len, reverse=True)
        self._declared = frozenset(self._longest_first)
        bare = {name.partition(".")[2] or name: name for name in self._longest_first}
        functions = {
            name.removeprefix(_FUNCTION_NAMESPACES[0]): name
            for name in self._longest_first
            if name.startswith(_FUNCTION_NAMESPACES[0])
        }
        self._by_bare_name = bare | functions
        self._texts = (*self._longest_first, *map(_bare, self._longest_first))
        odd = {text for text in self._texts if not _PLAIN_NAME.fullmatch(text)}
        self.odd_names = tuple(sorted(odd, key=len, reverse=True))
        """The full and bare names whose characters are not all plain, the longest first."""

    def resolve(self, name: str) -> Resolved:
        """The recipient for `to=name`: a declared tool, else `name` without illegal characters."""
        return self.declared_tool(name) or self._without_suffix(name) or self._corrected(name)

    def declared_tool(self, name: str) -> Resolved | None:
        """The declared tool with the full or bare name `name`, None if there is none."""
        if name in self._declared:
            return Resolved(name)
        bare = _bare(name)
        full = self._by_bare_name.get(bare, bare if bare in self._declared else None)
        return None if full is None else Resolved(full, repair=Repair.RENAMED_RECIPIENT)

    def _corrected(self, name: str) -> Resolved:
        """`name` without characters that are illegal in names, so that clients can send it back."""
        legal = names.without_illegal_characters(name)
        if legal in _FUNCTION_NAMESPACES:
            legal = legal[:-1]
        if legal == name:
            return Resolved(name)
        tool = self.declared_tool(legal)
        return Resolved(legal if tool is None else tool.recipient, repair=Repair.HEADER_WORDS)

    def _without_suffix(self, name: str) -> Resolved | None:
        if not name.startswith(self._texts):  # one call, where the loop has two for each tool
            return None
        for declared in self._longest_first:
            for text in (declared, _bare(declared)):
                if name.startswith(text) and _is_suffix(rest := name[len(text) :]):
                    return Resolved(declared, rest, Repair.GLUED_RECIPIENT)
        return None


@lru_cache(maxsize=8)
def recipients_of(declared: tuple[str, ...]) -> Recipients:
    """The recipients for these tools. Cached: the choices of a request and the turns of an answer
    declare the same ones, of which there may be thousands."""
    return Recipients(declared)


def _bare(name: str) -> str:
    for namespace in _FUNCTION_NAMESPACES:
        if name.startswith(namespace):
            return name[len(namespace) :]
    return name


def _is_suffix(rest: str) -> bool:
    """Whether `rest` follows a name without a space, rather than making it another name."""
    return rest in _GLUED or bool(_NOT_IN_NAME.match(rest))


@dataclass(frozen=True, slots=True)
class Reading:
    """An interpreted header, its repairs, and the text that it contained.

    text_start: the index of the first token that may have text, if there is any.
    """

    header: Header
    repairs: tuple[Repair, ...] = ()
    text: str = ""
    text_start: int = 0


def read(tokens: Sequence[int], recipients: Recipients, fallback: Channel) -> Reading:
    """Interpret the tokens of a header. fallback: the channel of a header that names none."""
    return _read(_to_text(tokens), recipients, fallback)


def read_unfinished_header(
    tokens: Sequence[int], recipients: Recipients, fallback: Channel
) -> Reading | None:
    """The header and the text of a message that ended before its `<|message|>`.

    None if there is no text: the tokens are a legal header, or the beginning of one.
    """
    whole = _to_text(tokens)
    syntax = _unfinished_syntax(recipients.odd_names)
    role = len(Role.ASSISTANT) if whole.startswith(Role.ASSISTANT) else 0
    start = syntax.start.match(whole, role)
    split = start.end() if start else role
    head, text = whole[:split], syntax.without_headers(whole[split:])
    # Spaces that belong to the header are no message.
    is_blank = not text.strip() and text != whole[role:]
    if is_blank or syntax.may_become_word(text, head):
        return None
    reading = _read(head, recipients, fallback)
    repairs = (*reading.repairs, Repair.HEADERLESS_TEXT)
    return Reading(reading.header, repairs, text, _count_within(head, tokens))


@dataclass(frozen=True, slots=True)
class _UnfinishedSyntax:
    """Tells the words of an unfinished header from the text after it.

    start: the longest beginning that continues a legal header after its role. no_text: what may
    stand inside of a text without being part of it. odd_names: as in `Recipients`.
    """

    start: re.Pattern[str]
    no_text: re.Pattern[str]
    odd_names: tuple[str, ...]

    def without_headers(self, text: str) -> str:
        """`text` without parts of legal headers, and without the beginning of one at its end."""
        last = max(text.rfind(_CHANNEL), text.rfind(_CONSTRAIN))
        if last >= 0 and (part := self.no_text.match(text, last)):
            opened = text[: part.end()]
            if self.may_become_word(text[part.end() :], opened):
                text = opened
        return self.no_text.sub("", text)

    def may_become_word(self, text: str, head: str) -> bool:
        """Whether `text` after `head` is the beginning of a word of a legal header."""
        return any(word.startswith(text) for word in self._next_words(head))

    def _next_words(self, head: str) -> Iterator[str]:
        """The words that may follow `head`, and what may be missing of a name at its end."""
        match head[-1:]:
            case "":
                yield Role.ASSISTANT
            case last if last == _CHANNEL:
                yield from Channel
            case last if last == _CONSTRAIN:
                yield from CONTENT_TYPES
            case _:
                yield " to="
                yield from (f" {word}" for word in CONTENT_TYPES)
                _, to, name = head.rpartition(" to=")
                names_begun = (odd for odd in self.odd_names if to and odd.startswith(name))
                yield from (odd[len(name) :] for odd in names_begun)


@lru_cache(maxsize=64)
def _unfinished_syntax(odd_names: tuple[str, ...]) -> _UnfinishedSyntax:
    # The name ends before the first character that is not plain, unless a declared one has it.
    odd = "|".join(map(re.escape, odd_names))
    name = rf"(?:(?:{odd}){_PLAIN}*|{_PLAIN}+)" if odd else rf"{_PLAIN}+"
    of_type = rf" *{_CONSTRAIN} ?(?:{_TYPES})?| (?:{_TYPES})(?!\w)"
    # A text may follow a channel without a space, but not in the middle of a word.
    channel = rf"(?:{_CHANNELS})(?:(?![a-z])|(?=to=))"
    part = rf"{_CHANNEL}(?:{channel})?(?: ?to={name}|{of_type})*"
    role = rf"(?:assistant)* ?to={name}|(?:assistant)*(?={_CHANNEL}|\Z)"
    return _UnfinishedSyntax(
        re.compile(rf"(?:{role})?(?:{part})*"),
        re.compile(rf"{part}|{_CONSTRAIN} ?(?:{_TYPES})?|{_OTHER}"),
        odd_names,
    )


def _count_within(head: str, tokens: Sequence[int]) -> int:
    """The number of tokens at the beginning that have nothing but `head` in them."""
    size = len(_to_bytes(head))
    pieces = token_bytes()
    lengths = (
        len(pieces[token] if 0 <= token < FIRST_SPECIAL else _to_bytes(_OTHER)) for token in tokens
    )
    return sum(1 for _ in takewhile(lambda end: end <= size, accumulate(lengths)))


def _to_bytes(text: str) -> bytes:
    """The bytes of `text`, in which those of each control token's surrogate are as many."""
    return text.encode("utf-8", "surrogatepass")


def _abridged(text: str) -> str:
    """The beginning and the end of a long header, without the words that the gap cuts apart.

    Reading a header takes time for each word, and one sampling can consist of a header.
    """
    half = _LONGEST_READ // 2
    first, last = _LAST_WORD.sub("", text[:half]), _FIRST_WORD.sub("", text[-half:])
    return f"{first} {last}"


def _read(text: str, recipients: Recipients, fallback: Channel) -> Reading:
    lenient = LenientHeaderReader(recipients, fallback)
    if len(text) > _LONGEST_READ:
        return lenient.read(_abridged(text))
    return _read_legal(text, recipients) or lenient.read(text)


def _to_text(tokens: Sequence[int]) -> str:
    """The text of a header, with a surrogate for each control token."""
    parts = []
    words: list[int] = []
    for token in tokens:
        if 0 <= token < FIRST_SPECIAL:
            words.append(token)
            continue
        if words:  # a sampling may consist of control tokens alone
            parts.append(decode(words))
            words = []
        parts.append(_SPELLED.get(token, _OTHER))
    return "".join([*parts, decode(words)])


def _read_legal(text: str, recipients: Recipients) -> Reading | None:
    match = _LEGAL.fullmatch(text)
    if match is None:
        return None
    role_part, channel, channel_part, constrained, word = match.groups()
    recipient = role_part or channel_part
    if recipient is not None:
        if (role_part and channel_part) or recipient in _NOT_RECIPIENTS:
            return None
        if recipients.resolve(recipient) != Resolved(recipient):
            return None
    if constrained is not None and not _is_content_type(constrained):
        return None
    return Reading(Header(Channel(channel), recipient, constrained or word))


class LenientHeaderReader:
    """Reads one malformed header, part by part."""

    def __init__(self, recipients: Recipients, fallback: Channel) -> None:
        self._recipients = recipients
        self._fallback = fallback
        self._channel: Channel | None = None
        self._addressed: list[str] = []
        self._mentioned: list[Resolved] = []
        self._content_type: str | None = None
        self._repairs: dict[Repair, None] = {}

    def read(self, text: str) -> Reading:
        """The header with the last channel, the first tool and the first content type."""
        role, *channels = text.replace(_OTHER, "").split(_CHANNEL)
        self._role_part(role)
        for part in channels:
            self._channel_part(part)
        if len(channels) > 1:
            self._add_repair(Repair.REPEATED_CHANNEL)
        recipient = self._recipient()
        if self._channel is None:
            self._add_repair(Repair.MISSING_CHANNEL)
            self._channel = Channel.COMMENTARY if recipient else self._fallback
        if not self._repairs:
            self._add_repair(Repair.HEADER_WORDS)
        header = Header(self._channel, recipient, self._content_type)
        return Reading(header, tuple(self._repairs))

    def _add_repair(self, repair: Repair) -> None:
        self._repairs[repair] = None

    def _role_part(self, part: str) -> None:
        words = list(self._words(part))
        role = words[0] if words else ""
        if not role:
            self._add_repair(Repair.MISSING_START)
        elif role != Role.ASSISTANT:
            self._add_repair(Repair.UNEXPECTED_ROLE)
        role = _AUTHOR.sub("", role, count=1)
        rest = words[1:]
        is_tool = self._is_tool(role)
        if role in _OTHER_AUTHORS:
            self._fallback = Channel.ANALYSIS
        elif not is_tool and (channel := _nearest_channel(role)):
            self._channel = channel
        elif role and (is_tool or rest):  # a misspelt role alone is no text
            rest = [role, *rest]
        self._read_words(rest, most_unknown=0)

    def _channel_part(self, part: str) -> None:
        words = list(self._words(part))
        name = words[0] if words else ""
        if name and (name in _CHANNEL_NAMES or not self._add_mentioned_tool(name)):
            self._channel = _nearest_channel(name) or Channel.FINAL
            if name != self._channel:
                self._add_repair(Repair.UNKNOWN_CHANNEL)
        self._read_words(words[1:], most_unknown=1)

    def _words(self, part: str) -> Iterator[str]:
        """The words before `<|constrain|>`. Stores recipients, and the content type after it."""
        plain, constrain, constrained = part.partition(_CONSTRAIN)
        yield from self._words_without_recipients(plain)
        if constrain:
            words = self._words_without_recipients(constrained.replace(_CONSTRAIN, " "))
            self._set_content_type(" ".join(words))

    def _words_without_recipients(self, text: str) -> Iterator[str]:
        for item in _ITEM.finditer(text):
            if item["to"]:
                self._addressed.append(item["name"])
            if word := item[0].removesuffix(item["to"] or ""):
                yield word

    def _read_words(self, words: Sequence[str], *, most_unknown: int) -> None:
        """Read names of tools, and content types.

        With more unknown words than `most_unknown` they are a text, which may mention a tool: then
        only a name with its namespace is a recipient.
        """
        is_text = sum(map(self._is_unknown, words)) > most_unknown
        for word in words:
            if word in CONTENT_TYPES and not is_text:
                self._set_content_type(word)
            elif (is_text and not _has_namespace(word)) or not self._add_mentioned_tool(word):
                self._add_repair(Repair.HEADER_WORDS)

    def _is_unknown(self, word: str) -> bool:
        return word not in _HEADER_WORDS and not self._is_tool(word)

    def _is_tool(self, word: str) -> bool:
        return self._recipients.declared_tool(word) is not None

    def _set_content_type(self, content_type: str) -> None:
        if not _is_content_type(content_type) or self._content_type is not None:
            self._add_repair(Repair.HEADER_WORDS)
        else:
            self._content_type = content_type

    def _add_mentioned_tool(self, word: str) -> bool:
        tool = self._recipients.declared_tool(word)
        if tool is not None:
            self._mentioned.append(tool)
        return tool is not None

    def _recipient(self) -> str | None:
        if len(self._addressed) > 1:
            self._add_repair(Repair.REPEATED_RECIPIENT)
        tool = self._addressed_tool()
        if self._mentioned:
            self._add_repair(Repair.MISPLACED_RECIPIENT)
            tool = tool or self._mentioned[0]
        if tool is None:
            return None
        if tool.repair:
            self._add_repair(tool.repair)
        if tool.suffix in CONTENT_TYPES:
            self._content_type = self._content_type or tool.suffix
        return tool.recipient

    def _addressed_tool(self) -> Resolved | None:
        """The first tool after `to=`. Names after it are not resolved, as there may be many."""
        for name in self._addressed:
            tool = self._recipients.resolve(name)
            if tool.recipient not in _NOT_RECIPIENTS:
                return tool
            self._add_repair(Repair.HEADER_WORDS)
        return None


def _has_namespace(name: str) -> bool:
    return "." in name.strip(".")


def _is_content_type(text: str) -> bool:
    return names.is_title(text) and text not in _NOT_RECIPIENTS


def _nearest_channel(word: str) -> Channel | None:
    """The channel that `word` begins with, or that has the same first letters, else None."""
    lowered = word.lower()
    return next((c for c in Channel if lowered.startswith(c)), None) or next(
        (c for c in Channel if lowered.startswith(c[:_SHARED_LETTERS])), None
    )
