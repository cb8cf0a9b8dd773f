"""Text to ids and back.

`encode` is the only way in for anyone's text and knows ordinary tokens only: whoever types
`<|end|>` gets those characters. `encode_with_control` is for harmony text of our own making.
"""

import codecs
from collections.abc import Iterable
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


def encode(text: str) -> list[int]:
    """Ordinary ids only, whatever `text` spells. Lone surrogates become U+FFFD."""
    return encoding().encode_ordinary(text)


def encode_with_control(text: str) -> list[int]:
    """Ids of harmony text in which control tokens are spelled out and meant as such."""
    return encoding().encode(text, allowed_special="all")


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
