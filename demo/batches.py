"""Cases as batches of a constant number of tokens, made in a process of their own.

Cases come in pools. A pool is sorted by length and cut into batches whose rows are padded to one
of a few lengths, so little is padding and the order is the same on every run and after a resume.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from demo.embedding import families
from demo.skills import draw_case
from demo.skills.words import Split
from demo.transcript import Sequence, transcript
from harmony import vocab
from harmony.tokenizer import encode

TOKENS = 3840
LENGTHS = (128, 160, 192, 240, 256, 320, 384, 480, 640, 768, 960, 1280, 1920)
POOL = 2048
WITHOUT_THOUGHT = 0.06
NEGATIVES = 1536
RELATIVES = 4
KNOWN = 3072
HEARD = 0.2
"""The weight in the loss of a user's tokens; those that the model has to say have 1."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of transcripts and what is to be learned from them.

    `tokens` are the ids that occur, `rows` (b, l) index them. `at` are flat positions in rows whose
    next token is learned, each with its weight in the loss, 1 or `HEARD`; `targets` index
    `candidates`, the ids that the softmax runs over: some stand for many others that were not
    drawn, and `shares` has the logarithm of how many.
    """

    tokens: Tensor
    rows: Tensor
    at: Tensor
    weights: Tensor
    candidates: Tensor
    shares: Tensor
    targets: Tensor


def known_tokens(seed: int) -> Tensor:
    """The ids that get rows of their own: the most frequent ones, and all short numbers."""
    counts: Counter[int] = Counter()
    for index in range(6000):
        counts.update(transcript(draw_case(seed, index, Split.TRAIN)).ids)
    numbers = {encode(str(n))[0] for n in range(1000)} | {encode(f"{n:02}")[0] for n in range(100)}
    frequent = [token for token, _ in counts.most_common(KNOWN)]
    chosen = dict.fromkeys([*sorted(numbers), *frequent])
    return torch.tensor(sorted(list(chosen)[:KNOWN]))


def pool(
    seed: int,
    number: int,
    known: np.ndarray,
    size: int = POOL,
    tokens: int = TOKENS,
    focus: str | None = None,
) -> list[Batch]:
    """The batches of pool `number`, of `size` cases, in the order in which they are trained on.

    focus: a skill that half of the cases are of.
    """
    rng = Random(f"pool/{seed}/{number}")
    first = number * size
    made = [
        transcript(
            draw_case(seed, first + i, Split.TRAIN, focus=focus),
            thinking=rng.random() > WITHOUT_THOUGHT,
        )
        for i in range(size)
    ]
    lengths = [length for length in LENGTHS if length <= tokens]
    fitting = [s for s in made if len(s.ids) <= lengths[-1]]
    fitting.sort(key=lambda s: len(s.ids), reverse=True)
    batches = []
    while fitting:
        length = min(size for size in lengths if size >= len(fitting[0].ids))
        count = tokens // length
        batches.append(_batch(fitting[:count], (count, length), known, rng))
        fitting = fitting[count:]
    rng.shuffle(batches)
    return batches


def _batch(
    members: list[Sequence], shape: tuple[int, int], known: np.ndarray, rng: Random
) -> Batch:
    ids = np.full(shape, vocab.ENDOFTEXT, dtype=np.int64)
    length = shape[1]
    counts = np.zeros(shape, dtype=np.float32)
    for row, member in enumerate(members):
        ids[row, : len(member.ids)] = member.ids
        counts[row, : len(member.ids)] = np.where(member.heard, HEARD, member.learned)
    tokens, rows = np.unique(ids, return_inverse=True)
    drawn = np.random.default_rng(rng.getrandbits(64)).integers(0, vocab.FIRST_SPECIAL, NEGATIVES)
    sure = np.unique(np.concatenate((known, tokens, _relatives(tokens))))
    candidates = np.unique(np.concatenate((sure, drawn)))
    others = ~np.isin(candidates, sure, assume_unique=True)
    stands_for = np.where(others, np.log((vocab.VOCAB_SIZE - len(sure)) / others.sum()), 0.0)
    at = np.flatnonzero(counts[:, 1:].ravel())
    at = at // (length - 1) * length + at % (length - 1)
    targets = np.searchsorted(candidates, ids.ravel()[at + 1])
    shares = stands_for.astype(np.float32)
    weights = counts.ravel()[at + 1]
    parts = (tokens, rows.reshape(ids.shape), at, weights, candidates, shares, targets)
    return Batch(*(torch.from_numpy(part) for part in parts))


def _relatives(tokens: np.ndarray) -> np.ndarray:
    """Tokens that look most like `tokens`: the neighbours among those of the same core."""
    order, place = families()
    at = place[tokens]
    near = [
        order[np.clip(at + step, 0, len(order) - 1)] for step in range(-RELATIVES, RELATIVES + 1)
    ]
    return np.concatenate(near)


def _produce(
    seed: int,
    start: int,
    known: np.ndarray,
    size: int,
    tokens: int,
    stride: int,
    focus: str | None,
    queue: "Queue[Any]",
) -> None:
    number = start
    while True:
        for position, batch in enumerate(pool(seed, number, known, size, tokens, focus)):
            parts = (
                batch.tokens,
                batch.rows,
                batch.at,
                batch.weights,
                batch.candidates,
                batch.shares,
                batch.targets,
            )
            queue.put((number, position, [part.numpy() for part in parts]))
        number += stride


@contextmanager
def stream(
    seed: int,
    start: tuple[int, int],
    known: Tensor,
    size: int = POOL,
    tokens: int = TOKENS,
    stride: int = 1,
    focus: str | None = None,
) -> Iterator[Iterator[tuple[tuple[int, int], Batch]]]:
    """Batches and their places (pool, position) from `start` on, made ahead in another process.

    Of the pools only every `stride`-th is taken. Half of the cases are of the skill `focus`.
    """
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(maxsize=64)
    worker = context.Process(
        target=_produce,
        args=(seed, start[0], known.numpy(), size, tokens, stride, focus, queue),
        daemon=True,
    )
    worker.start()

    def batches() -> Iterator[tuple[tuple[int, int], Batch]]:
        while True:
            number, position, parts = queue.get()
            if (number, position) >= start:
                yield (number, position), Batch(*(torch.from_numpy(part) for part in parts))

    try:
        yield batches()
    finally:
        worker.terminate()
        worker.join()
