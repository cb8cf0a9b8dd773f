"""Cases as batches of a constant number of tokens, made in processes of their own.

Cases come in pools. A pool is sorted by length and cut into batches whose rows are padded to one
of a few lengths, so little is padding. Or it is packed: each batch is one row of cases in the order
in which they were drawn, for attention that knows where each begins. The order of the batches is
the same on every run and after a resume.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import cycle
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from queue import Empty
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from demo.attention import Packed
from demo.embedding import families
from demo.skills import draw_case
from demo.skills.words import Split
from demo.transcript import Transcript, transcript
from harmony import vocab
from harmony.tokenizer import encode

TOKENS = 3840
LENGTHS = (128, 160, 192, 240, 256, 320, 384, 480, 640, 768, 960, 1280, 1920)
POOL = 2048
WITHOUT_THOUGHT = 0.06
NEGATIVES = 1536
RELATIVES = 2
KNOWN = 3072
HEARD = 0.2
"""The weight in the loss of a user's tokens; those that the model has to say have 1."""
FORGOTTEN = 0.15
"""The share of a batch's tokens that go without rows of their own."""
_ALIGNED = 64
"""The number of candidates is a multiple of it."""
_COUNTED = 6000
"""The cases in which tokens are counted."""
_PART = 250
"""How many of them a process counts at a time."""
_PATIENCE = 10.0
"""Seconds without a batch after which the process that makes it is looked at."""
_AHEAD = 64
"""How many batches a process may be ahead."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of transcripts and what is to be learned from them.

    `tokens` are the ids that occur, `rows` (b, l) index them. `forgotten` says which of them go
    without rows of their own: the model has to understand them by their tags. `at` are flat
    positions in rows whose next token is learned, each with its weight in the loss, 1 or `HEARD`;
    `targets` index `candidates`, the ids that the softmax runs over: some stand for many others
    that were not drawn, and `shares` has the logarithm of how many. `starts` (int32) has the places
    where the transcripts of a packed row begin, and its end; it is empty for rows of one transcript
    each.
    """

    tokens: Tensor
    forgotten: Tensor
    rows: Tensor
    at: Tensor
    weights: Tensor
    candidates: Tensor
    shares: Tensor
    targets: Tensor
    starts: Tensor

    @property
    def packed(self) -> Packed | None:
        """Where the transcripts of a packed row begin; None for rows of one transcript each."""
        return Packed(self.starts, LENGTHS[-1]) if len(self.starts) else None

    def parts(self) -> list[Tensor]:
        """All tensors, in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`; the copy to a GPU goes on beside what follows."""
        if device.type == "cpu":
            return self
        return Batch(*(part.pin_memory().to(device, non_blocking=True) for part in self.parts()))


@dataclass(frozen=True, slots=True)
class Cut:
    """How pools are made and cut into batches.

    size: cases of a pool. tokens: of a batch. packed: whether each batch is one row of cases of
    any length. focus: skills that half of the cases are of.
    """

    size: int = POOL
    tokens: int = TOKENS
    packed: bool = False
    focus: tuple[str, ...] = ()


def known_tokens(seed: int, processes: int = 1) -> Tensor:
    """The ids that get rows of their own: the most frequent ones, and all short numbers.

    processes: how many count; the result is the same.
    """
    starts = range(0, _COUNTED, _PART)
    if processes == 1:
        parts = [_counts(seed, start) for start in starts]
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as workers:
            parts = workers.starmap(_counts, [(seed, start) for start in starts], chunksize=1)
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(part)
    numbers = {encode(str(n))[0] for n in range(1000)} | {encode(f"{n:02}")[0] for n in range(100)}
    frequent = [token for token, _ in counts.most_common(KNOWN)]
    chosen = dict.fromkeys([*sorted(numbers), *frequent])
    return torch.tensor(sorted(list(chosen)[:KNOWN]))


def _counts(seed: int, start: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for index in range(start, min(start + _PART, _COUNTED)):
        counts.update(transcript(draw_case(seed, index, Split.TRAIN)).ids)
    return counts


def pool(seed: int, number: int, known: np.ndarray, cut: Cut) -> list[Batch]:
    """The batches of pool `number`, in the order in which they are trained on."""
    rng = Random(f"pool/{seed}/{number}")
    first = number * cut.size
    made = [
        transcript(
            draw_case(seed, first + i, Split.TRAIN, focus=cut.focus),
            thinking=rng.random() > WITHOUT_THOUGHT,
        )
        for i in range(cut.size)
    ]
    lengths = [length for length in LENGTHS if length <= cut.tokens]
    fitting = [s for s in made if len(s.ids) <= lengths[-1]]
    if cut.packed:
        return [_packed(members, cut.tokens, known, rng) for members in _full_rows(fitting, cut)]
    fitting.sort(key=lambda s: len(s.ids), reverse=True)
    batches = []
    while fitting:
        length = min(size for size in lengths if size >= len(fitting[0].ids))
        count = cut.tokens // length
        batches.append(_batch([[one] for one in fitting[:count]], (count, length), known, rng))
        fitting = fitting[count:]
    rng.shuffle(batches)
    return batches


def _full_rows(made: list[Transcript], cut: Cut) -> Iterator[list[Transcript]]:
    """The transcripts of each row that is full: those that fit, one after another."""
    members: list[Transcript] = []
    room = cut.tokens
    for one in made:
        if len(one.ids) > room:
            yield members
            members, room = [], cut.tokens
        members.append(one)
        room -= len(one.ids)


def _packed(members: list[Transcript], tokens: int, known: np.ndarray, rng: Random) -> Batch:
    ends = np.cumsum([0, *(len(member.ids) for member in members)])
    starts = [*ends, *([tokens] if ends[-1] < tokens else [])]
    batch = _batch([members], (1, tokens), known, rng)
    return replace(batch, starts=torch.tensor(starts, dtype=torch.int32))


def _batch(
    rows_of: list[list[Transcript]], shape: tuple[int, int], known: np.ndarray, rng: Random
) -> Batch:
    """rows_of: the transcripts that stand one after another in each row."""
    ids = np.full(shape, vocab.ENDOFTEXT, dtype=np.int64)
    length = shape[1]
    counts = np.zeros(shape, dtype=np.float32)
    for row, members in enumerate(rows_of):
        end = 0
        for member in members:
            place = slice(end, end := end + len(member.ids))
            ids[row, place] = member.ids
            counts[row, place] = np.where(member.heard, HEARD, member.learned)
    tokens, rows = np.unique(ids, return_inverse=True)
    source = np.random.default_rng(rng.getrandbits(64))
    drawn = source.integers(0, vocab.FIRST_SPECIAL, NEGATIVES)
    forgotten = source.random(len(tokens)) < FORGOTTEN
    sure = np.unique(np.concatenate((known, tokens, _relatives(tokens))))
    others = source.permutation(np.setdiff1d(drawn, sure))
    # On a GPU products with an odd number of columns take several times as long.
    others = others[: len(others) - (len(sure) + len(others)) % _ALIGNED]
    candidates = np.sort(np.concatenate((sure, others)))
    is_other = ~np.isin(candidates, sure, assume_unique=True)
    each = np.log((vocab.VOCAB_SIZE - len(sure)) / len(others))
    stands_for = np.where(is_other, each, 0.0)
    at = np.flatnonzero(counts[:, 1:].ravel())
    at = at // (length - 1) * length + at % (length - 1)
    targets = np.searchsorted(candidates, ids.ravel()[at + 1])
    shares = stands_for.astype(np.float32)
    weights = counts.ravel()[at + 1]
    starts = np.empty(0, dtype=np.int32)
    given = (tokens, forgotten, rows.reshape(ids.shape), at)
    learned = (weights, candidates, shares, targets, starts)
    return Batch(*(torch.from_numpy(part) for part in (*given, *learned)))


def _relatives(tokens: np.ndarray) -> np.ndarray:
    """Tokens that look most like `tokens`: the neighbours among those of the same core."""
    order, place = families()
    at = place[tokens]
    near = [
        order[np.clip(at + step, 0, len(order) - 1)] for step in range(-RELATIVES, RELATIVES + 1)
    ]
    return np.concatenate(near)


def _produce(
    seed: int, start: int, stride: int, known: np.ndarray, cut: Cut, queue: "Queue[Any]"
) -> None:
    """Put every `stride`-th pool from `start` on into the queue: its number, then its batches."""
    torch.set_num_threads(1)
    number = start
    while True:
        batches = pool(seed, number, known, cut)
        queue.put((number, len(batches)))
        for batch in batches:
            queue.put([part.numpy() for part in batch.parts()])
        number += stride


def _next(worker: BaseProcess, queue: "Queue[Any]") -> Any:
    """What the worker puts into its queue. Raises RuntimeError if it has ended."""
    while True:
        try:
            return queue.get(timeout=_PATIENCE)
        except Empty:
            if not worker.is_alive():
                raise RuntimeError("a process that makes batches has ended") from None


@contextmanager
def stream(
    seed: int,
    start: tuple[int, int],
    known: Tensor,
    cut: Cut,
    stride: int = 1,
    makers: int = 1,
) -> Iterator[Iterator[tuple[tuple[int, int], Batch]]]:
    """Batches and their places (pool, position) from `start` on, made ahead by other processes.

    Of the pools only every `stride`-th is taken. makers: how many processes make them in turn.
    """
    context = multiprocessing.get_context("spawn")
    queues: list[Queue[Any]] = [context.Queue(maxsize=_AHEAD) for _ in range(makers)]
    workers = [
        context.Process(
            target=_produce,
            args=(seed, start[0] + turn * stride, makers * stride, known.numpy(), cut, queue),
            daemon=True,
        )
        for turn, queue in enumerate(queues)
    ]
    for worker in workers:
        worker.start()

    def batches() -> Iterator[tuple[tuple[int, int], Batch]]:
        for worker, queue in cycle(zip(workers, queues, strict=True)):
            number, count = _next(worker, queue)
            for position in range(count):
                parts = _next(worker, queue)
                if (number, position) >= start:
                    yield (number, position), Batch(*(torch.from_numpy(part) for part in parts))

    try:
        yield batches()
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
