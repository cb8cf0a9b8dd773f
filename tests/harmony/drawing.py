"""Random outputs that a grammar allows, drawn from its masks."""

import random

import numpy as np
from llguidance import LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from harmony.mask_tokenizer import mask_tokenizer as mask_tokenizer
from harmony.tokenizer import encode
from harmony.vocab import CALL, END, MESSAGE, RETURN, VOCAB_SIZE

_STOPS = (RETURN, CALL)
_CLOSING_WORDS = ('"', "}", "]", '"}', '",', ",", ',"', '},"', '],"', "}}", "]}", "}]", "@", "a")
_CLOSING = (END, RETURN, CALL, MESSAGE, *(encode(word)[0] for word in _CLOSING_WORDS))
_TRIES = 16


class Mask:
    """A grammar being followed."""

    def __init__(self, grammar: str | LLMatcher) -> None:
        self.matcher = (
            grammar
            if isinstance(grammar, LLMatcher)
            else LLMatcher(mask_tokenizer(), grammar, log_level=0)
        )
        assert not self.matcher.is_error(), self.matcher.get_error()
        self._bits = allocate_token_bitmask(1, VOCAB_SIZE)
        # The same memory: one number of an array takes ten times as long to read.
        self._words = self._bits.reshape(-1).data

    def copy(self) -> "Mask":
        return Mask(self.matcher.deep_copy())

    def fill(self) -> None:
        fill_next_token_bitmask(self.matcher, self._bits)

    def allows(self, token: int) -> bool:
        return bool(self._words[token >> 5] >> (token & 31) & 1)

    def allowed(self) -> list[int]:
        bits = np.unpackbits(self._bits.view(np.uint8), bitorder="little")
        return [int(token) for token in np.flatnonzero(bits)]

    def follow(self, tokens: list[int]) -> int | None:
        """How many of `tokens` are allowed until one is not; None where all are."""
        for place, token in enumerate(tokens):
            self.fill()
            if not self.allows(token):
                return place
            assert self.matcher.consume_token(token)
        return None

    def draw(self, rng: random.Random, closing: float, limit: int) -> list[int]:
        """Up to `limit` tokens; `closing` is how often a token that ends something is preferred.

        Shorter where a token that stops a sampling came.
        """
        drawn: list[int] = []
        while len(drawn) < limit and not self.matcher.is_stopped():
            self.fill()
            token = self._choose(rng, closing)
            assert self.matcher.consume_token(token), self.matcher.get_error()
            drawn.append(token)
        return drawn

    def _choose(self, rng: random.Random, closing: float) -> int:
        if rng.random() < closing:
            fitting = [token for token in _CLOSING if self.allows(token)]
            if fitting:
                return rng.choice(fitting)
        for _ in range(_TRIES):
            token = rng.randrange(VOCAB_SIZE)
            if self.allows(token):
                return token
        word = int(rng.choice(np.flatnonzero(self._bits)))
        return rng.choice(
            [token for token in range(word << 5, word + 1 << 5) if self.allows(token)]
        )


def has_ended(tokens: list[int]) -> bool:
    return bool(tokens) and tokens[-1] in _STOPS
