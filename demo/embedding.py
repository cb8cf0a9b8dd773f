"""The structured embedding: where the rows of all 201,088 tokens come from.

A row is a fixed sign pattern of the token's core (its text without case, leading space or leading
punctuation; a hash, so nothing is stored), plus learned vectors for what the core leaves out
(leading space, case, letters, digits, length) and for its tags in the lexicon, plus, for the
frequent tokens, a learned row of its own. So `Paris`, ` paris` and `_paris` share what they have in
common, and the model can copy words that no training text contains, and understand some of them.
Where a word is one token after a space, but several elsewhere (` kitchen`, but `k`, `itchen` after
a quote; ` dose`, but `.d`, `ose` after the dot of `functions.dose`), the row in the input matrix
also has the signs of these pieces, so that it can be spelt.
"""

import hashlib
import re
import string
from functools import cache
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from demo.lexicon import MOST, lexicon
from harmony import vocab
from harmony.tokenizer import encode

IDENTITY = 96
"""How many of a row's components hold the core's signs."""

OUTPUT_AT = 96
"""Where the signs begin in a row of the output matrix; in the input matrix they begin at 0."""

PIECES = 3
"""The most pieces of a word that its row has the signs of."""

_PREFIXES = " \n._-\"'/(=:$#@\t"
_WORD = re.compile(rb" [A-Za-z]{2,}")
_LETTERS = string.ascii_lowercase
_FEATURES = len(_PREFIXES) + 4 + 3 + 30 + 10 + 26 + 26 + 3


def core(token: bytes) -> str:
    """A token's text without case and without leading space or punctuation, if anything is left."""
    text = token.decode("utf-8", "backslashreplace").lower()
    return text.lstrip(_PREFIXES) or text


@cache
def _cores() -> tuple[str, ...]:
    return tuple(core(piece) for piece in vocab.token_bytes())


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
def signs() -> Tensor:
    """The signs of every token's core, (vocabulary, IDENTITY) of +-1, int8.

    The same on every machine, since only hashes and the vocabulary go in.
    """
    cores = [text.encode() for text in _cores()]
    digests = b"".join(hashlib.blake2b(c, digest_size=IDENTITY // 8).digest() for c in cores)
    bits = np.unpackbits(np.frombuffer(digests, dtype=np.uint8)).reshape(len(cores), IDENTITY)
    return torch.from_numpy(bits.astype(np.int8) * 2 - 1)


@cache
def features() -> Tensor:
    """What else is fixed about every token, (vocabulary, features) of 0 and 1, int8."""
    on = [_describe(piece) for piece in vocab.token_bytes()]
    table = np.zeros((len(on), _FEATURES), dtype=np.int8)
    # All at once: an assignment to each row takes longer than all descriptions.
    rows = np.repeat(np.arange(len(on)), [len(places) for places in on])
    table[rows, np.fromiter(chain.from_iterable(on), dtype=np.int64)] = 1
    return torch.from_numpy(table)


@cache
def tagged() -> Tensor:
    """The numbers of each token's tags, (vocabulary, MOST); what is empty has the next number."""
    words, tags = lexicon()
    found = np.full((vocab.VOCAB_SIZE, MOST), len(tags))
    for token, text in enumerate(_cores()):
        if numbers := words.get(text):
            found[token, : len(numbers)] = numbers
    return torch.from_numpy(found)


@cache
def pieces(before: str = "") -> Tensor:
    """The first tokens of each ` word` when `before` stands in place of its space, (vocabulary,
    PIECES).

    before: "." as in `functions.word`; nothing for a word alone, as after a quote. -1 is for pieces
    that a word does not have, and for all pieces of tokens that stay one there or are no word.
    """
    found = np.full((vocab.VOCAB_SIZE, PIECES), -1)
    for token, piece in enumerate(vocab.token_bytes()):
        if _WORD.fullmatch(piece):
            apart = encode(before + piece[1:].decode())[:PIECES]
            if len(apart) > 1:
                found[token, : len(apart)] = apart
    return torch.from_numpy(found)


class Rows(nn.Module):
    """One matrix of the vocabulary, input or output, as a function of token ids."""

    def __init__(
        self, hidden: int, known: Tensor, offset: int, scale: float, *, spelt: bool = False
    ) -> None:
        """`known` are the ids with learned rows, `offset` is where the signs go.

        spelt: whether a row also has the signs of its token's pieces.
        """
        super().__init__()
        if spelt:
            self.spelling = nn.Parameter(_spelling(hidden, scale))
            self.dotted = nn.Parameter(torch.zeros_like(self.spelling))
        self.offset = offset
        self.hidden = hidden
        self.features = nn.Parameter(torch.randn(_FEATURES, hidden) * scale * 0.3)
        self.tags = nn.Parameter(torch.zeros(len(lexicon()[1]) + 1, hidden))
        self.deltas = nn.Parameter(torch.zeros(len(known) + 1, hidden))
        self.scale = nn.Parameter(torch.tensor(scale))
        place = torch.full((vocab.VOCAB_SIZE,), len(known))
        place[known] = torch.arange(len(known))
        tables = {"place": place, "signs": signs(), "described": features(), "tagged": tagged()}
        if spelt:
            tables |= {"pieces": pieces(), "dotted_pieces": pieces(".")}
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, ids: Tensor, forgotten: Tensor | None = None) -> Tensor:
        """ids (n,) -> rows (n, hidden), float32. Tokens that are not known share one delta.

        forgotten: which of the ids (n,) go without their own delta, if they have tags. So the model
        learns in training to understand words by their tags.
        """
        after = self.hidden - self.offset - IDENTITY
        placed = nn.functional.pad(self._of("signs", ids).float(), (self.offset, after))
        place, tags = self._of("place", ids), self._of("tagged", ids)
        empty = len(self.tags) - 1
        if forgotten is not None:
            place = place.masked_fill(forgotten & (tags[:, 0] != empty), len(self.deltas) - 1)
        meant = nn.functional.embedding_bag(tags, self.tags, mode="sum", padding_idx=empty)
        own = nn.functional.embedding(place, self.deltas)
        described = self._of("described", ids).float() @ self.features
        row = placed * self.scale + described + meant + own
        if not hasattr(self, "spelling"):
            return row
        row = self._spelt(row, "pieces", ids, self.spelling)
        return self._spelt(row, "dotted_pieces", ids, self.dotted)

    def _of(self, table: str, ids: Tensor) -> Tensor:
        return self.get_buffer(table)[ids]

    def _spelt(self, rows: Tensor, table: str, ids: Tensor, weight: Tensor) -> Tensor:
        """The rows (n, hidden), to which the signs of the pieces in `table` are added, of those ids
        that have pieces. weight: (PIECES * IDENTITY, hidden)."""
        parts = self._of(table, ids)
        at = (parts[:, 0] >= 0).nonzero().flatten()
        parts = parts[at]
        signed = self._of("signs", parts.clamp(min=0)).float() * (parts >= 0)[..., None]
        return rows.index_add(0, at, signed.flatten(1) @ weight)


def _spelling(hidden: int, scale: float) -> Tensor:
    """Where the pieces' signs begin, (PIECES * IDENTITY, hidden): the first one's where the token's
    own signs are, and where induction heads look for the token before; the others' anywhere."""
    start = torch.randn(PIECES * IDENTITY, hidden) * scale * 0.05
    width = min(IDENTITY, hidden - OUTPUT_AT - IDENTITY)
    start[:IDENTITY] = 0
    start[:IDENTITY, :IDENTITY] = torch.eye(IDENTITY) * scale * 0.5
    start[:width, OUTPUT_AT + IDENTITY : OUTPUT_AT + IDENTITY + width] = torch.eye(width) * 0.4
    return start


@cache
def families() -> tuple[np.ndarray, np.ndarray]:
    """Tokens of one core stand together: the ids in that order, and each id's place in it."""
    keys = np.packbits((signs().numpy() > 0).astype(np.uint8), axis=1)
    order = np.lexsort(keys.T)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return order, place


def forget_tables() -> None:
    """Free the memory of the tables here, 80 MB; each is computed anew when it is next used."""
    for table in (_cores, signs, features, tagged, pieces, families):
        table.cache_clear()
