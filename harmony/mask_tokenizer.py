"""The vocabulary in the form in which llguidance computes masks."""

from collections.abc import Sequence
from functools import cache
from threading import Lock

from llguidance import LLTokenizer, TokenizerWrapper

from harmony.tokenizer import encode
from harmony.vocab import ENDOFTEXT, SPECIAL_TOKENS, VOCAB_SIZE, token_bytes

_CONTROL = b"\xff"
"""llguidance's prefix for the names of control tokens, which never match text."""

_JSON_TEXT = r'[^"\\\x00-\x1F\x7F]'
_SLICES = [_JSON_TEXT + "{1,10}", _JSON_TEXT + "+"]
"""Tokens that match one of these expressions have a tree of their own, so that a mask includes or
excludes them all at once. llguidance's own list has two more: they do not speed up masks, but take
a quarter of a second and 26 MB."""

_building = Lock()
"""Threads that need the tokenizer at once wait for the one that builds it."""


class _Vocabulary:
    """What llguidance needs to know about the tokens. It encodes text with this project's encoder,
    where its own tokenizer would be a second copy of it, of 45 MB."""

    eos_token_id = ENDOFTEXT
    bos_token_id = None

    def __init__(self) -> None:
        names = {token: name.encode() for name, token in SPECIAL_TOKENS.items()}
        self.tokens: Sequence[bytes] = [
            _CONTROL + names[token] if token in names else content
            for token, content in enumerate(token_bytes())
        ]
        self.special_token_ids = sorted(SPECIAL_TOKENS.values())

    def __call__(self, text: str) -> list[int]:
        return encode(text)


def mask_tokenizer() -> LLTokenizer:
    """The tokenizer of this process, which is built once.

    Build it before the port opens: it holds the GIL for a second, in which no answer goes on.
    """
    with _building:
        return _mask_tokenizer()


@cache
def _mask_tokenizer() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Vocabulary()), n_vocab=VOCAB_SIZE, slices=_SLICES)
