"""One engine step: a token for every row, then the news of all rows in one go.

Takes the place of transformers' own `ModelRunner._sample`. A logits processor would do as well,
but after it the runner takes the argmax over the whole batch once more, which costs a tenth of a
step where the vocabulary is as large as this one.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from adapters.base import TokenLogprobs
from adapters.errors import BackendFailed
from adapters.local import sampling
from adapters.local.masks import MaskWorker, TokenMask
from adapters.local.row import Row, Sampled

logger = logging.getLogger(__name__)

_ROWS_AT_ONCE = 32  # bounds the copies of logits, of 0.8 MB a row

News = list[tuple[Row, Sampled]]


class Step:
    """Chooses tokens. `rows` names those of the batch, None where a request is gone already.

    report: takes all that a step has brought. Called on the engine's thread.
    """

    def __init__(self, rows: Callable[[], list[Row | None]], report: Callable[[News], None]):
        self._rows = rows
        self._report = report
        self._masks = MaskWorker()

    def close(self) -> None:
        self._masks.close()

    def __call__(self, scores: Tensor, output_ids: Tensor) -> None:
        """scores: [1, n, vocabulary] of float32, more rows than requests where one prefills.

        Writes the n chosen ids to the first row of `output_ids` [., >= n].
        """
        batch = self._rows()
        logits = scores[0, : len(batch)]
        if logits.device.type == "mps":  # no float64 there
            logits = logits.cpu()
        self._masks.wait()
        choice = _Choice(logits, batch)
        choice.make()
        # A failed row's token is never used, but it has to be an id.
        output_ids[0, : len(batch)].copy_(torch.tensor(choice.tokens).clamp(min=0))
        self._conclude(choice)

    def _conclude(self, choice: "_Choice") -> None:
        news: News = []
        sampled: list[tuple[TokenMask, int]] = []
        for place, row in enumerate(choice.batch):
            if row is None or row.ended:
                continue
            item = _outcome(choice, place, row)
            row.ended = item.finish_reason is not None or item.error is not None
            if row.mask is not None and not row.ended:
                sampled.append((row.mask, choice.tokens[place]))
            news.append((row, item))
        self._masks.advance(sampled)
        self._report(news)


def _outcome(choice: "_Choice", place: int, row: Row) -> Sampled:
    error = choice.errors.get(place)
    if error is not None:
        return Sampled(error=BackendFailed(error))
    if row.mask is not None and row.mask.complete:
        return Sampled(finish_reason="stop")
    token_id = choice.tokens[place]
    if token_id < 0:
        return Sampled(error=BackendFailed("the model's logits are not numbers"))
    logprobs = None
    if place in choice.logprobs:
        values, top = choice.logprobs[place]
        logprobs = TokenLogprobs(token_id, float(values[token_id]), tuple(top))
    return Sampled(token_id, logprobs, row.accept(token_id))


class _Choice:
    """The tokens of one step in the making.

    tokens: an id for each row; errors: place -> why that row fails.
    """

    def __init__(self, logits: Tensor, batch: Sequence[Row | None]) -> None:
        self._logits = logits
        self.batch = batch
        self.tokens = [0] * len(batch)
        self.errors: dict[int, str] = {}
        self.logprobs: dict[int, tuple[Tensor, list[tuple[int, float]]]] = {}

    def make(self) -> None:
        live = [(place, row) for place, row in enumerate(self.batch) if row is not None]
        for place, row in live:
            if not row.plain:
                with self._only([place]):
                    self._prepare(place, row)
        free = [(place, row) for place, row in live if not _must_mask_first(row)]
        self._choose([item for item in free if item[1].stretch.greedy], self._greedy)
        self._choose([item for item in free if not item[1].stretch.greedy], self._draw)
        for place, row in live:
            if row.mask is not None and place not in self.errors:
                with self._only([place]):
                    self._obey(place, row, row.mask)

    @contextmanager
    def _only(self, places: Iterable[int]) -> Iterator[None]:
        """Let an error end these rows, not the engine."""
        try:
            yield
        except Exception as error:
            logger.exception("sampling failed")
            self.errors.update(dict.fromkeys(places, f"sampling failed: {error}"))

    def _prepare(self, place: int, row: Row) -> None:
        """Take the model's own logprobs, then apply penalties and bias in place."""
        logits = self._logits[place]
        if row.request.logprobs is not None:
            self.logprobs[place] = sampling.log_probabilities(logits, row.request.logprobs)
        stretch = row.stretch
        if stretch.counts is not None:
            sampling.penalise(logits, stretch.params, stretch.counts.tally(logits.device))
        if stretch.bias is not None:
            ids, values = (part.to(logits.device) for part in stretch.bias)
            logits.index_add_(0, ids, values)

    def _choose(
        self,
        items: list[tuple[int, Row]],
        choose: Callable[[Tensor, list[Row]], Tensor],
    ) -> None:
        items = [item for item in items if item[0] not in self.errors]
        for first in range(0, len(items), _ROWS_AT_ONCE):
            places = [place for place, _ in items[first : first + _ROWS_AT_ONCE]]
            with self._only(places):
                rows = [row for _, row in items[first : first + _ROWS_AT_ONCE]]
                chosen = choose(self._part(places), rows)
                for place, token_id in zip(places, chosen.tolist(), strict=True):
                    self.tokens[place] = token_id

    def _part(self, places: list[int]) -> Tensor:
        if len(places) == 1:
            return self._logits[places[0] : places[0] + 1]
        if len(places) == len(self._logits):
            return self._logits
        return self._logits[places]

    @staticmethod
    def _greedy(logits: Tensor, rows: list[Row]) -> Tensor:
        return sampling.greedy(logits)

    @staticmethod
    def _draw(logits: Tensor, rows: list[Row], attempt: int = 0) -> Tensor:
        warp = sampling.warp_of([row.stretch.params for row in rows], logits.device)
        uniforms = [row.uniform(attempt) for row in rows]
        return sampling.draw(
            logits, warp, torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
        )

    def _obey(self, place: int, row: Row, mask: TokenMask) -> None:
        """Keep the row's token where the grammar allows it, else choose among those it allows.

        Drawing again after a refusal is drawing from the masked distribution: a refusal says
        nothing about which allowed token comes. Where top_p, top_k or min_p depend on the mask,
        nothing was drawn before.
        """
        if mask.error is not None:
            self.errors[place] = f"the grammar cannot go on: {mask.error}"
            return
        token_id = self.tokens[place]
        if mask.complete:
            return
        if not _must_mask_first(row) and token_id >= 0 and mask.allows(token_id):
            return
        allowed = mask.allowed()
        if len(allowed) == 0:
            self.errors[place] = "the grammar allows no token"
        elif len(allowed) == 1:
            self.tokens[place] = int(allowed[0])
        else:
            ids = torch.from_numpy(allowed).to(self._logits.device)
            logits = self._logits[place].index_select(0, ids).unsqueeze(0)
            chosen = (
                self._greedy(logits, [row])
                if row.stretch.greedy
                else self._draw(logits, [row], attempt=1)
            )
            column = int(chosen)
            self.tokens[place] = int(allowed[column]) if column >= 0 else -1


def _must_mask_first(row: Row) -> bool:
    """True where the grammar changes which tokens top_p, top_k or min_p keep."""
    return row.mask is not None and row.stretch.truncates and not row.stretch.greedy
