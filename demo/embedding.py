"""The structured embedding: where the rows of all 201,088 tokens come from.

A row is a fixed sign pattern of the token's core (its text without case, leading space or leading
punctuation; a hash, so nothing is stored), plus learned vectors for what the core leaves out
(leading space, case, letters, digits, length), plus, for the frequent tokens, a learned row of
its own. So `Paris`, ` paris` and `_paris` share what they have in common, and the model can copy
words that no training text contains.
"""

import hashlib
import string
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from harmony import vocab

IDENTITY = 96
"""How many of a row's components hold the core's signs."""

OUTPUT_AT = 96
"""Where the signs begin in a row of the output matrix; in the input matrix they begin at 0."""

_PREFIXES = " \n._-\"'/(=:$#@\t"
_LETTERS = string.ascii_lowercase
_FEATURES = len(_PREFIXES) + 4 + 3 + 30 + 10 + 26 + 26 + 3


def core(token: bytes) -> str:
    """A token's text without case and without leading space or punctuation, if anything is left."""
    text = token.decode("utf-8", "backslashreplace").lower()
    return text.lstrip(_PREFIXES) or text


def _describe(token: bytes) -> list[int]:
    text = token.decode("utf-8", "backslashreplace")
    bare = text.lstrip(_PREFIXES)
    lower = bare.lower()
    on = []
    if bare and bare != text:
        on.append(_PREFIXES.index(text[0]))
    at = len(_PREFIXES)
    on += [
        at + i
        for i, holds in enumerate((bare.islower(), bare.istitle(), bare.isupper(), not bare))
        if holds
    ]
    at += 4
    if bare.isascii() and bare.isdigit():
        on.append(at + min(len(bare), 3) - 1)
        on += [at + 3 + 10 * i + int(digit) for i, digit in enumerate(reversed(bare[:3]))]
    at += 33
    on.append(at + min(len(bare), 9))
    at += 10
    if lower and lower[0] in _LETTERS:
        on.append(at + _LETTERS.index(lower[0]))
    if lower and lower[-1] in _LETTERS:
        on.append(at + 26 + _LETTERS.index(lower[-1]))
    at += 52
    on.append(at + (0 if text.isascii() else 1))
    if len(set(text)) == 1 and len(text) > 1:
        on.append(at + 2)
    return on


@cache
def structure() -> tuple[Tensor, Tensor]:
    """What is fixed about every token: signs (vocabulary, 96) of +-1 and features (vocabulary, f).

    Both int8; the same on every machine, since only hashes and the vocabulary go in.
    """
    pieces = vocab.token_bytes()
    cores = [core(piece).encode() for piece in pieces]
    digests = b"".join(hashlib.blake2b(c, digest_size=IDENTITY // 8).digest() for c in cores)
    bits = np.unpackbits(np.frombuffer(digests, dtype=np.uint8)).reshape(len(pieces), IDENTITY)
    features = np.zeros((len(pieces), _FEATURES), dtype=np.int8)
    for row, piece in enumerate(pieces):
        features[row, _describe(piece)] = 1
    signs = bits.astype(np.int8) * 2 - 1
    return torch.from_numpy(signs), torch.from_numpy(features)


class Rows(nn.Module):
    """One matrix of the vocabulary, input or output, as a function of token ids."""

    def __init__(self, hidden: int, known: Tensor, offset: int, scale: float) -> None:
        """`known` are the ids with learned rows, `offset` is where the signs go."""
        super().__init__()
        self.offset = offset
        self.hidden = hidden
        self.features = nn.Parameter(torch.randn(_FEATURES, hidden) * scale * 0.3)
        self.deltas = nn.Parameter(torch.zeros(len(known) + 1, hidden))
        self.scale = nn.Parameter(torch.tensor(scale))
        place = torch.full((vocab.VOCAB_SIZE,), len(known))
        place[known] = torch.arange(len(known))
        self.register_buffer("place", place, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (n,) -> rows (n, hidden), float32. Tokens that are not known share one delta."""
        signs, features = structure()
        after = self.hidden - self.offset - IDENTITY
        placed = nn.functional.pad(signs[ids].float(), (self.offset, after))
        place = self.get_buffer("place")[ids]
        own = nn.functional.embedding(place, self.deltas)
        return placed * self.scale + features[ids].float() @ self.features + own


@cache
def families() -> tuple[np.ndarray, np.ndarray]:
    """Tokens of one core stand together: the ids in that order, and each id's place in it."""
    signs, _ = structure()
    keys = np.packbits((signs.numpy() > 0).astype(np.uint8), axis=1)
    order = np.lexsort(keys.T)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return order, place
