"""Converts text to token ids and back.

`encode` uses ordinary tokens only: `<|end|>` in its text becomes the tokens of these characters.
Text from clients is always encoded with it. `encode_with_control` is for harmony text that this
project writes, and for requests that ask for control tokens.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

import tiktoken

from harmony import vocab

SPLIT_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""The pattern by which o200k_base splits text, as in tiktoken and in tokenizer.json."""

# With an unbounded repetition, a million white spaces overflow the stack of the matcher.
_SPLIT = SPLIT_PATTERN.replace(r"\s+(?!\S)", r"\s{1,65536}(?!\S)")

_LONGEST_NAME = max(map(len, vocab.SPECIAL_TOKENS))
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


@cache
def _encoding() -> tiktoken.Encoding:
    """The encoding of this process. The first call takes 0.2 s."""
    ranks = vocab.ranks()
    made = encoding(ranks)
    # The encoding has copied them, and keeps the dict only to be pickled.
    ranks.clear()
    return made


def encoding(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """A new `o200k_harmony` encoding. ranks: those of `vocab.ranks`."""
    return tiktoken.Encoding(
        "o200k_harmony",
        pat_str=_SPLIT,
        mergeable_ranks=ranks,
        special_tokens=vocab.SPECIAL_TOKENS,
        explicit_n_vocab=vocab.VOCAB_SIZE,
    )


SLICE = 1 << 16
"""The number of characters that are tokenized in one call.

A longer text is split at a place where the pattern splits as well: between a word and the space or
mark after it, or after a line break. A text without such a place in the last `_WINDOW` characters
of a slice is split at the end of the slice.
"""

_WINDOW = 1 << 12
_BOUNDARY = re.compile(
    r"[^\W_](?=[ ,.;:!?()\[\]{}\"\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])|\n(?=[^\s/])"
)


def encode(text: str) -> list[int]:
    """The ids of `text`, ordinary tokens only. Lone surrogates become U+FFFD."""
    return encode_within(text, sys.maxsize)


def encode_with_control(text: str) -> list[int]:
    """The ids of `text`, in which names such as `<|end|>` become control tokens."""
    return encode_within(text, sys.maxsize, control=True)


def encode_within(text: str, limit: int, *, control: bool = False) -> list[int]:
    """The ids of `text`. If there are more than `limit`, the result may be incomplete, but has more
    than `limit` ids.

    control: whether names of control tokens become control tokens. A long text is encoded in
    slices, so that other threads can run in between.
    """
    ids: list[int] = []
    for piece in _slices(text, control=control):
        ids += _encode(piece, control=control)
        if len(ids) > limit:
            break
    return ids


@lru_cache(maxsize=4096)
def encode_header_part(text: str) -> tuple[int, ...]:
    """The ids of a part of a header, as `encode` gives them. Cached: headers repeat their parts."""
    return tuple(encode(text))


def count(text: str) -> int:
    """The number of ids that `encode` gives."""
    return sum(len(_encode(piece)) for piece in _slices(text))


def _encode(text: str, *, control: bool = False) -> list[int]:
    if control:
        return _encoding().encode(text, allowed_special="all")
    return _encoding().encode_ordinary(text)


def _slices(text: str, *, control: bool = False) -> Iterator[str]:
    start = 0
    while len(text) - start > SLICE:
        end = start + SLICE
        places = [match.end() for match in _BOUNDARY.finditer(text, end - _WINDOW, end)]
        end = places[-1] if places else end
        end = _outside_name(text, start, end) if control else end
        yield text[start:end]
        start = end
    yield text[start:]


def _outside_name(text: str, start: int, end: int) -> int:
    """`end`, or where the name of a control token begins (if that is `start`: ends) around it."""
    first = text.rfind("<|", max(start, end - _LONGEST_NAME), end + 1)
    last = text.find("|>", first, first + _LONGEST_NAME) + 2
    if first < 0 or last <= end or text[first:last] not in vocab.SPECIAL_TOKENS:
        return end
    return first if first > start else last


def decode(ids: Iterable[int]) -> str:
    """The text of `ids`, with the names of control tokens.

    Bytes that are not UTF-8, and unknown ids, become U+FFFD.
    """
    pieces = vocab.token_bytes()
    known = range(vocab.VOCAB_SIZE)
    return b"".join(pieces[i] if i in known else _REPLACEMENT for i in ids).decode(
        "utf-8", "replace"
    )


class Utf8Decoder:
    """Decodes bytes that arrive in pieces. Bytes that are not UTF-8 become U+FFFD.

    The texts of all `push` calls and of `finish` together equal `data.decode(errors="replace")`.
    """

    __slots__ = ("_decode", "_state", "pending")

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decode = decoder.decode
        self._state = decoder.getstate
        self.pending = 0
        """The number of bytes of an incomplete character at the end: 0 to 3."""

    def push(self, data: bytes) -> str:
        """The characters that `data` completes."""
        if not self.pending and data.isascii():
            return data.decode()
        text = self._decode(data)
        self.pending = len(self._state()[0])
        return text

    def finish(self) -> str:
        """U+FFFD for an incomplete character, else an empty text. Resets the decoder."""
        self.pending = 0
        return self._decode(b"", True)
