"""Tokens for the rows of one step: what each row asks for, grouped so that tensors do the work."""

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
from adapters.local import sampling
from adapters.local.row import Row

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 32  # bounds the copies of logits, of 0.8 MB a row

Placed = tuple[int, Row]
Narrowed = Mapping[int, NDArray[np.int64]]
Masked = Mapping[int, NDArray[np.int32]]


class LogitsBuffer:
    """Room for a copy of logits, kept from step to step.

    A fresh 13 MB for 16 rows comes from the system page by page, which takes longer than the draw.
    """

    def __init__(self) -> None:
        self._room = torch.empty(0)

    def rows(self, count: int, logits: Tensor) -> Tensor:
        """[count, width] like `logits`, of any content."""
        width = logits.shape[-1]
        if self._room.device != logits.device or self._room.numel() < count * width:
            self._room = torch.empty(count * width, device=logits.device)
        return self._room[: count * width].view(count, width)


class StepSampler:
    """The tokens of one step in the making.

    tokens: an id for each row of `batch`, -1 where its logits are not numbers.
    errors: place -> why that row fails. logprobs: place -> of the token, and of the likeliest.
    """

    def __init__(
        self, logits: Tensor, batch: Sequence[Row | None], logits_buffer: LogitsBuffer
    ) -> None:
        """logits: [rows, width] of float32; penalties and bias change them in place."""
        self._logits = logits
        self._logits_buffer = logits_buffer
        self.batch = batch
        self.tokens = [0] * len(batch)
        self.errors: dict[int, BackendError] = {}
        self.logprobs: dict[int, sampling.Logprobs] = {}
        self._ranked: list[tuple[list[Placed], sampling.Ranked]] = []

    def make(self) -> None:
        live = [(place, row) for place, row in enumerate(self.batch) if row is not None]
        for portion in _in_portions([one for one in live if one[1].request.logprobs is not None]):
            self._together(self._rank, portion)
        for place, row in live:
            if row.phase_state.adjusts:
                with self._only(place):
                    self._adjust(place, row)
        self._choose_freely([item for item in live if not _must_mask_first(item[1])])
        bound: list[Placed] = []
        for place, row in live:
            if row.mask is not None:
                with self._only(place):
                    bound += self._obey(place, row, row.mask)
        self._choose_among(bound)
        for items, ranked in self._ranked:
            tokens = [max(self.tokens[place], 0) for place, _ in items]
            tops = [row.request.logprobs or 0 for _, row in items]
            places = [place for place, _ in items]
            found = sampling.logprobs_of(ranked, tokens, tops)
            self.logprobs.update(zip(places, found, strict=True))

    @contextmanager
    def _only(self, place: int) -> Iterator[None]:
        """Let an error end this row, not the engine."""
        try:
            yield
        except Exception as error:
            logger.exception("sampling failed")
            self.errors[place] = BackendFailed(f"sampling failed: {error}")

    def _together(self, choose: Callable[[list[Placed]], None], items: list[Placed]) -> None:
        """`choose` for all items, and where that fails for one after another.

        Only those end that fail alone. `choose` changes nothing before it succeeds, and draws the
        same numbers again: the others get the tokens that they would have got anyway.
        """
        if len(items) > 1:
            try:
                choose(items)
                return
            except Exception as error:
                logger.warning("sampling failed for %d rows at once: %s", len(items), error)
        for item in items:
            with self._only(item[0]):
                choose([item])

    def _rank(self, items: list[Placed]) -> None:
        """Take the model's own logprobs, before anything changes the logits."""
        top = max(row.request.logprobs or 0 for _, row in items)
        self._ranked.append((items, sampling.rank(self._rows(items), top)))

    def _rows(self, items: list[Placed], out: Tensor | None = None) -> Tensor:
        """The logits of these rows: the matrix itself where that is all of it, else a copy."""
        if len(items) == len(self._logits):
            return self._logits
        index = torch.tensor([place for place, _ in items], device=self._logits.device)
        return torch.index_select(self._logits, 0, index, out=out)

    def _adjust(self, place: int, row: Row) -> None:
        """Apply penalties and bias in place."""
        logits = self._logits[place]
        phase_state = row.phase_state
        if phase_state.counts is not None:
            sampling.penalise(logits, phase_state.params, phase_state.counts.tally(logits.device))
        if phase_state.bias is not None:
            ids, values = (part.to(logits.device) for part in phase_state.bias)
            logits.index_add_(0, ids, values)

    def _choose_freely(self, items: list[Placed]) -> None:
        """Choose among all tokens."""
        for portion in _portions([item for item in items if item[0] not in self.errors]):
            self._together(self._choose_portion, portion)

    def _choose_portion(self, portion: list[Placed]) -> None:
        room = self._logits_buffer.rows(len(portion), self._logits)
        chosen = _choose(self._rows(portion, room), [row for _, row in portion], 0, room)
        self._settle(portion, chosen)

    def _settle(self, items: list[Placed], tokens: list[int]) -> None:
        for (place, _), token_id in zip(items, tokens, strict=True):
            self.tokens[place] = token_id

    def _obey(self, place: int, row: Row, mask: TokenMask) -> list[Placed]:
        """The row, unless its token is settled: it is to choose among what its mask allows.

        Drawing again after a refusal is drawing from the masked distribution: a refusal says
        nothing about which allowed token comes.
        """
        if mask.complete or place in self.errors:
            return []
        if mask.is_open:
            first = _must_mask_first(row)
            refused = not first and not mask.allows(max(self.tokens[place], 0))
            # The likeliest of all tokens takes less time to find than few to list.
            mask.ahead = refused or (first and not row.phase_state.greedy)
            if not first and not refused:
                return []
            mask.bits()
        if mask.error is not None:
            self.errors[place] = mask.error
        elif mask.few is None or len(mask.few) > 1:
            return [(place, row)]
        elif len(mask.few) == 0:
            self.errors[place] = DeadEnd()
        else:
            self.tokens[place] = int(mask.few[0])
        return []

    def _choose_among(self, items: list[Placed]) -> None:
        """Choose among the allowed tokens: a list of them where they are few, else a bitmask."""
        narrowed: dict[int, NDArray[np.int64]] = {}
        masked: dict[int, NDArray[np.int32]] = {}
        for place, row in items:
            if row.mask is None:
                continue
            bits = row.mask.bits()
            if row.mask.few is not None:
                narrowed[place] = row.mask.few
            elif bits is not None:
                masked[place] = bits
        # By width, so that a row that allows many tokens widens few others.
        listed = [item for item in items if item[0] in narrowed]
        listed.sort(key=lambda item: len(narrowed[item[0]]))
        for portion in _portions(listed):
            self._together(partial(self._choose_narrowed, narrowed), portion)
        for portion in _portions([item for item in items if item[0] in masked]):
            self._together(partial(self._choose_masked, masked), portion)

    def _choose_masked(self, masked: Masked, portion: list[Placed]) -> None:
        """Choose with the other tokens' logits at -inf, in rows of the vocabulary's width."""
        bits = np.stack([masked[place] for place, _ in portion])
        room = self._logits_buffer.rows(len(portion), self._logits)
        logits = self._rows(portion, room)
        if logits is not room:
            room.copy_(logits)
        allowed = sampling.unpack(bits, room.shape[1], room.device)
        room.masked_fill_(allowed.logical_not_(), -torch.inf)
        self._settle(portion, _choose(room, [row for _, row in portion], 1, room))

    def _choose_narrowed(self, narrowed: Narrowed, portion: list[Placed]) -> None:
        """Choose in a matrix of the listed tokens alone, as wide as the longest list."""
        places = [place for place, _ in portion]
        ids = _side_by_side([narrowed[place] for place in places])
        columns = torch.from_numpy(ids).to(self._logits.device)
        rows = torch.tensor(places, device=self._logits.device).unsqueeze(1)
        # Flat places: to index by rows and columns takes twice as long.
        logits = self._logits.take(rows * self._logits.shape[1] + columns.clamp(min=0))
        logits.masked_fill_(columns < 0, -torch.inf)
        chosen = _choose(logits, [row for _, row in portion], 1, logits)
        for line, (place, column) in enumerate(zip(places, chosen, strict=True)):
            self.tokens[place] = int(ids[line, column]) if column >= 0 else -1


def _choose(logits: Tensor, rows: list[Row], attempt: int, room: Tensor) -> list[int]:
    """A column for each row; the rows are all greedy, or none is. `room` is as in `draw`."""
    if rows[0].phase_state.greedy:
        chosen = sampling.greedy(logits)
    else:
        warp = sampling.warp_of([row.phase_state.params for row in rows], logits.device)
        uniforms = [(row.uniform(attempt), row.uniform(attempt + 2)) for row in rows]
        numbers = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
        chosen = sampling.draw(logits, warp, numbers, room)
    columns: list[int] = chosen.tolist()
    return columns


def _portions(items: list[Placed]) -> Iterator[list[Placed]]:
    """Items that can be chosen together: the greedy ones, then the others."""
    for greedy in (True, False):
        yield from _in_portions([item for item in items if item[1].phase_state.greedy is greedy])


def _in_portions(items: list[Placed]) -> Iterator[list[Placed]]:
    for first in range(0, len(items), _ROWS_AT_ONCE):
        yield items[first : first + _ROWS_AT_ONCE]


def _side_by_side(lists: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Rows of a matrix, filled up with -1."""
    matrix = np.full((len(lists), max(map(len, lists))), -1, np.int64)
    for line, ids in zip(matrix, lists, strict=True):
        line[: len(ids)] = ids
    return matrix


def _must_mask_first(row: Row) -> bool:
    """True where nothing is chosen before the grammar is asked.

    Because few tokens are left, or because the grammar changes which ones top_p and the like keep.
    """
    if row.mask is None:
        return False
    return row.mask.few is not None or (row.phase_state.truncates and not row.phase_state.greedy)
