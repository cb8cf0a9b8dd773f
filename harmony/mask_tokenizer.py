"""The vocabulary in the form in which llguidance computes masks."""

from collections.abc import Sequence
from functools import cache
from threading import Lock

from llguidance import LLTokenizer, TokenizerWrapper

from harmony.tokenizer import encode
from harmony.vocab import ENDOFTEXT, SPECIAL_TOKENS, VOCAB_SIZE, token_bytes

_CONTROL = b"\xff"
"""llguidance's prefix for the names of control tokens, which never match text."""

_SLICES = [r'[^"\\\x00-\x1F\x7F]{1,16}']
"""Tokens that match one of these expressions have a tree of their own. A mask includes them all at
once, where a text may go on for as many characters. llguidance's own list has white space, and 10,
30 and any number of characters; each of them takes 12 MB and a tenth of a second. This one is
nearly as fast as all of them: few tokens have more than 16 characters, and are tried one by one."""

_building = Lock()
"""Threads that need the tokenizer at once wait for the one that builds it."""


class _Vocabulary:
    """What llguidance needs to know about the tokens. It encodes text with this project's encoder,
    where its own tokenizer would be a second copy of it, of 45 MB."""

    eos_token_id = ENDOFTEXT
    bos_token_id = None
    special_token_ids = sorted(SPECIAL_TOKENS.values())

    @property
    def tokens(self) -> Sequence[bytes]:
        """A new list of 2 MB."""
        names = {token: name.encode() for name, token in SPECIAL_TOKENS.items()}
        return [
            _CONTROL + names[token] if token in names else content
            for token, content in enumerate(token_bytes())
        ]

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
    wrapper = TokenizerWrapper(_Vocabulary())
    made = LLTokenizer(wrapper, n_vocab=VOCAB_SIZE, slices=_SLICES)
    # It has copied them, and keeps the wrapper only to encode text.
    wrapper.tokens = ()
    return made
