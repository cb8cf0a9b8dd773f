"""Text to ids and back.

`encode` is the only way in for anyone's text and knows ordinary tokens only: whoever types
`<|end|>` gets those characters. `encode_with_control` is for harmony text of our own making.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache

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
"""How o200k_base cuts text, as tiktoken and the checkpoint's tokenizer.json state it."""

# Unbounded, a run of a million white spaces overflows the matcher's stack.
_SPLIT = SPLIT_PATTERN.replace(r"\s+(?!\S)", r"\s{1,65536}(?!\S)")

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


@cache
def encoding() -> tiktoken.Encoding:
    """The `o200k_harmony` encoding over the packaged ranks; building it takes half a second."""
    return tiktoken.Encoding(
        "o200k_harmony",
        pat_str=_SPLIT,
        mergeable_ranks=vocab.ranks(),
        special_tokens=vocab.SPECIAL_TOKENS,
        explicit_n_vocab=vocab.VOCAB_SIZE,
    )


SLICE = 1 << 16
"""Characters that are tokenized at once.

A longer text is cut where the pattern would cut it, too: between a word and the space or mark after
it, or after a line break. Text without such a place in `_WINDOW` characters is cut elsewhere.
"""

_WINDOW = 1 << 12
_BOUNDARY = re.compile(
    r"[^\W_](?=[ ,.;:!?()\[\]{}\"\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])|\n(?=[^\s/])"
)


def encode(text: str) -> list[int]:
    """Ordinary ids only, whatever `text` spells. Lone surrogates become U+FFFD."""
    return encode_within(text, sys.maxsize)


def encode_with_control(text: str) -> list[int]:
    """Ids of harmony text in which control tokens are spelled out and meant as such."""
    return encode_within(text, sys.maxsize, control=True)


def encode_within(text: str, most: int, *, control: bool = False) -> list[int]:
    """As `encode`, or more than `most` ids of a text that has more.

    control: as `encode_with_control`. What takes long, takes it in slices, between which other
    threads run; nothing is tokenized after `most`.
    """
    ids: list[int] = []
    for piece in _slices(text):
        ids += _encode(piece, control=control)
        if len(ids) > most:
            break
    return ids


def count(text: str) -> int:
    """How many ids `encode` gives."""
    return sum(len(_encode(piece)) for piece in _slices(text))


def _encode(text: str, *, control: bool = False) -> list[int]:
    if control:
        return encoding().encode(text, allowed_special="all")
    return encoding().encode_ordinary(text)


def _slices(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > SLICE:
        end = start + SLICE
        places = [found.end() for found in _BOUNDARY.finditer(text, end - _WINDOW, end)]
        end = places[-1] if places else end
        yield text[start:end]
        start = end
    yield text[start:]


def decode(ids: Iterable[int]) -> str:
    """Text with control tokens spelled out; bytes that are no UTF-8 and unknown ids are U+FFFD."""
    pieces = vocab.token_bytes()
    known = range(vocab.VOCAB_SIZE)
    return b"".join(pieces[i] if i in known else _REPLACEMENT for i in ids).decode(
        "utf-8", "replace"
    )


class Utf8Decoder:
    """Decodes bytes that arrive in pieces; what is no UTF-8 comes out as U+FFFD.

    The pieces' texts, with `finish()` last, join to the whole's `bytes.decode(errors="replace")`.
    """

    __slots__ = ("_decode", "_state", "held")

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decode = decoder.decode
        self._state = decoder.getstate
        self.held = 0
        """How many of the last bytes await the rest of their character: 0 to 3."""

    def push(self, data: bytes) -> str:
        """The characters that `data` completes."""
        if not self.held and data.isascii():
            return data.decode()
        text = self._decode(data)
        self.held = len(self._state()[0])
        return text

    def finish(self) -> str:
        """What an unfinished character leaves: U+FFFD or nothing. The decoder is new again."""
        self.held = 0
        return self._decode(b"", True)
