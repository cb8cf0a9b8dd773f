"""Chooses the tokens of one step, for all rows with the same kind of sampling at once."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapters.errors import BackendError, BackendFailed, DeadEnd
from adapters.grammars import TokenMask
from adapters.local.steps import sampling
from adapters.local.steps.row import Row

logger = logging.getLogger(__name__)

_DRAWS = 6  # of one token, until one is not excluded; the last one takes a sort
_ROWS_AT_ONCE = 32  # limits the size of copies of logits: 0.8 MB for each row

Placed = tuple[int, Row]
ListedIds = Mapping[int, NDArray[np.int64]]
Bitmasks = Mapping[int, NDArray[np.int32]]


class LogitsBuffer:
    """Memory for a copy of logits, reused in each step.

    The system provides newly allocated memory page by page: 13 MB for 16 rows take longer than the
    sampling itself.
    """

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def rows(self, count: int, logits: Tensor) -> Tensor:
        """A tensor [count, width] with the width and device of `logits`, not initialised."""
        memory, width = self._memory, logits.shape[-1]
        if memory.device != logits.device or memory.numel() < count * width:
            self._memory = memory = torch.empty(count * width, device=logits.device)
        return memory[: count * width].view(count, width)

    def free(self) -> None:
        """Free the memory, as soon as no tensor of it is in use. May be called on any thread."""
        self._memory = torch.empty(0)


class StepSampler:
    """Chooses the tokens of one step.

    A place is the index of a row in `batch`.

    tokens: an id for each row of `batch`, -1 if the logits of the row are not numbers.
    errors: place -> the error that ends the row. logprobs: place -> the logprobs of the token and
    of the most likely tokens.
    """

    def __init__(
        self, logits: Tensor, batch: Sequence[Row | None], logits_buffer: LogitsBuffer
    ) -> None:
        """logits: [rows, width] of float32; penalties and bias change them in place.

        batch: the rows, None for a request that was released.
        """
        self._logits = logits
        self._logits_buffer = logits_buffer
        self.batch = batch
        self.tokens = [0] * len(batch)
        self.errors: dict[int, BackendError] = {}
        self.logprobs: dict[int, sampling.Logprobs] = {}
        self._ranked: list[tuple[list[Placed], sampling.Ranked]] = []

    def choose(self) -> None:
        """Set `tokens`, `errors` and `logprobs`."""
        live = [(place, row) for place, row in enumerate(self.batch) if row is not None]
        for portion in _in_portions([one for one in live if one[1].request.logprobs is not None]):
            self._choose_batch(self._rank, portion)
        for place, row in live:
            if row.phase_state.adjusts:
                with self._errors_of(place):
                    self._penalise(place, row)
        self._choose_unmasked([item for item in live if not _must_mask_first(item[1])])
        to_mask: list[Placed] = []
        for place, row in live:
            if row.mask is not None:
                with self._errors_of(place):
                    to_mask += self._apply_mask(place, row, row.mask)
        self._choose_masked(to_mask)
        for items, ranked in self._ranked:
            tokens = [max(self.tokens[place], 0) for place, _ in items]
            tops = [row.request.logprobs or 0 for _, row in items]
            places = [place for place, _ in items]
            found = sampling.logprobs_of(ranked, tokens, tops)
            self.logprobs.update(zip(places, found, strict=True))

    @contextmanager
    def _errors_of(self, place: int) -> Iterator[None]:
        """Turn an exception into an error of this row; the other rows and the engine continue."""
        try:
            yield
        except Exception as error:
            logger.exception("sampling failed")
            self.errors[place] = BackendFailed(f"sampling failed: {error}")

    def _choose_batch(self, choose: Callable[[list[Placed]], None], items: list[Placed]) -> None:
        """Call `choose` with all items or, if that fails, with each item alone.

        Only items that fail alone get an error. A failed call of `choose` changes nothing, and a
        second call draws the same random numbers: the other rows get the same tokens either way.
        """
        if len(items) > 1:
            try:
                choose(items)
                return
            except Exception as error:
                logger.warning("sampling failed for %d rows at once: %s", len(items), error)
        for item in items:
            with self._errors_of(item[0]):
                choose([item])

    def _rank(self, items: list[Placed]) -> None:
        """Compute the logprobs of the model, before penalties, bias and masks change the logits."""
        top = max(row.request.logprobs or 0 for _, row in items)
        self._ranked.append((items, sampling.rank(self._rows(items), top)))

    def _rows(self, items: list[Placed], out: Tensor | None = None) -> Tensor:
        """The logits of the rows of `items`: the whole matrix, or a copy of some rows in `out`."""
        if len(items) == len(self._logits):
            return self._logits
        index = torch.tensor([place for place, _ in items], device=self._logits.device)
        return torch.index_select(self._logits, 0, index, out=out)

    def _penalise(self, place: int, row: Row) -> None:
        """Apply the bias and the penalties of a row to its logits, in place, in vLLM's order."""
        logits = self._logits[place]
        phase_state = row.phase_state
        if phase_state.bias is not None:
            ids, values = (part.to(logits.device) for part in phase_state.bias)
            logits.index_add_(0, ids, values)
        if phase_state.counts is not None:
            sampling.penalise(logits, phase_state.params, phase_state.counts.tally(logits.device))

    def _choose_unmasked(self, items: list[Placed]) -> None:
        """Choose from the whole vocabulary. The error of a row that has one counts all the same."""
        for portion in _portions(items):
            self._choose_batch(self._choose_portion, portion)

    def _choose_portion(self, portion: list[Placed]) -> None:
        buffer = self._logits_buffer.rows(len(portion), self._logits)
        chosen = _choose(self._rows(portion, buffer), [row for _, row in portion], 0, buffer)
        self._set_tokens(portion, chosen)

    def _set_tokens(self, items: list[Placed], tokens: list[int]) -> None:
        for (place, _), token_id in zip(items, tokens, strict=True):
            self.tokens[place] = token_id

    def _apply_mask(self, place: int, row: Row, mask: TokenMask) -> list[Placed]:
        """The row if its token has to be chosen from the allowed ones, or nothing.

        Nothing if the row has an error, or if its token is already determined. A token that was
        chosen from the whole vocabulary and is not allowed is drawn again. The result has the
        distribution of the mask: the first draw says nothing about which allowed token follows.
        """
        if mask.complete or place in self.errors:
            return []
        if mask.is_open:
            first = _must_mask_first(row)
            refused = not first and not mask.allows(max(self.tokens[place], 0))
            # Finding the most likely token takes less time than listing a few allowed ones.
            mask.precompute = refused or (first and not row.phase_state.greedy)
            if not first and not refused:
                return []
            mask.bits()
        if mask.error is not None:
            self.errors[place] = mask.error
        elif mask.few_ids is None or len(mask.few_ids) > 1:
            return [(place, row)]
        elif len(mask.few_ids) == 0:
            self.errors[place] = DeadEnd()
        else:
            self.tokens[place] = int(mask.few_ids[0])
        return []

    def _choose_masked(self, items: list[Placed]) -> None:
        """Choose from the allowed tokens, given as a list if they are few, else as a bitmask."""
        listed_ids: dict[int, NDArray[np.int64]] = {}
        masked: dict[int, NDArray[np.int32]] = {}
        for place, row in items:
            if row.mask is None:
                continue
            bits = row.mask.bits()
            if row.mask.few_ids is not None:
                listed_ids[place] = row.mask.few_ids
            elif bits is not None:
                masked[place] = bits
        # Sorted, so that rows with lists of similar length share a matrix.
        listed = [item for item in items if item[0] in listed_ids]
        listed.sort(key=lambda item: len(listed_ids[item[0]]))
        for portion in _portions(listed):
            self._choose_batch(partial(self._choose_by_list, listed_ids), portion)
        for portion in _portions([item for item in items if item[0] in masked]):
            self._choose_batch(partial(self._choose_by_bitmask, masked), portion)

    def _choose_by_bitmask(self, masked: Bitmasks, portion: list[Placed]) -> None:
        """Choose in rows of the vocabulary's width, with the logits of forbidden tokens at -inf."""
        bits = np.stack([masked[place] for place, _ in portion])
        buffer = self._logits_buffer.rows(len(portion), self._logits)
        logits = self._rows(portion, buffer)
        if logits is not buffer:
            buffer.copy_(logits)
        allowed = sampling.unpack(bits, buffer.shape[1], buffer.device)
        buffer.masked_fill_(allowed.logical_not_(), -torch.inf)
        self._set_tokens(portion, _choose(buffer, [row for _, row in portion], 1, buffer))

    def _choose_by_list(self, listed_ids: ListedIds, portion: list[Placed]) -> None:
        """Choose in a matrix of the listed tokens only, as wide as the longest list."""
        places = [place for place, _ in portion]
        ids = _side_by_side([listed_ids[place] for place in places])
        columns = torch.from_numpy(ids).to(self._logits.device)
        rows = torch.tensor(places, device=self._logits.device).unsqueeze(1)
        # Flat indices, since indexing by rows and columns takes twice as long.
        logits = self._logits.take(rows * self._logits.shape[1] + columns.clamp(min=0))
        logits.masked_fill_(columns < 0, -torch.inf)
        chosen = _choose(logits, [row for _, row in portion], 1, logits)
        for line, (place, column) in enumerate(zip(places, chosen, strict=True)):
            self.tokens[place] = int(ids[line, column]) if column >= 0 else -1


def _choose(logits: Tensor, rows: list[Row], attempt: int, out: Tensor) -> list[int]:
    """A column for each row. Either all rows are greedy or none; `out` is as in `sampling.draw`."""
    if rows[0].phase_state.greedy:
        chosen = sampling.greedy(logits)
    else:
        warp = sampling.warp_of([row.phase_state.params for row in rows], logits.device)
        draws = _DRAWS if any(row.phase_state.truncates for row in rows) else 1
        uniforms = [[row.uniform(attempt + 2 * n) for n in range(draws)] for row in rows]
        numbers = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
        chosen = sampling.draw(logits, warp, numbers, out)
    columns: list[int] = chosen.tolist()
    return columns


def _portions(items: list[Placed]) -> Iterator[list[Placed]]:
    """Groups of items that `_choose` accepts: the greedy ones, then the others."""
    for greedy in (True, False):
        yield from _in_portions([item for item in items if item[1].phase_state.greedy is greedy])


def _in_portions(items: list[Placed]) -> Iterator[list[Placed]]:
    for first in range(0, len(items), _ROWS_AT_ONCE):
        yield items[first : first + _ROWS_AT_ONCE]


def _side_by_side(lists: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A matrix with the lists as rows, padded with -1."""
    matrix = np.full((len(lists), max(map(len, lists))), -1, np.int64)
    for line, ids in zip(matrix, lists, strict=True):
        line[: len(ids)] = ids
    return matrix


def _must_mask_first(row: Row) -> bool:
    """Whether a row needs its mask before a token is chosen.

    It does if few tokens are allowed, or if top_p, top_k or min_p are set: the grammar changes
    which tokens they exclude.
    """
    if row.mask is None:
        return False
    if row.mask.few_ids is not None:
        return True
    return row.phase_state.truncates and not row.phase_state.greedy
