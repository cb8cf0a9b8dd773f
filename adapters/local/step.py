"""One engine step: a token for every row, then the results of all rows in one go.

Takes the place of transformers' own `ModelRunner._sample`. A logits processor would do as well,
but after it the runner takes the argmax over the whole batch once more, which costs a tenth of a
step where the vocabulary is as large as this one.
"""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from adapters.base import TokenLogprobs
from adapters.errors import BackendFailed
from adapters.grammars import TokenMask
from adapters.local.masks import MaskWorker
from adapters.local.row import Row, Sampled
from adapters.local.step_sampler import LogitsBuffer, StepSampler

logger = logging.getLogger(__name__)

StepResults = list[tuple[Row, Sampled]]


class Step:
    """Chooses tokens. `rows` names those of the batch, None where a request is gone already.

    report: takes all that a step has brought. Called on the engine's thread.
    """

    def __init__(self, rows: Callable[[], list[Row | None]], report: Callable[[StepResults], None]):
        self._rows = rows
        self._report = report
        self._masks = MaskWorker()
        self._logits_buffer = LogitsBuffer()
        self._runs: list[tuple[str, tuple[int, ...]]] = []

    def close(self) -> None:
        self._masks.close()

    def take_runs(self) -> list[tuple[str, tuple[int, ...]]]:
        """The keys of requests, and the tokens that grammars force after those of the last step."""
        runs, self._runs = self._runs, []
        return runs

    def __call__(self, scores: Tensor, output_ids: Tensor) -> None:
        """scores: [1, n, vocabulary] of float32, more rows than requests where one prefills.

        Writes the n chosen ids to the first row of `output_ids` [., >= n].
        """
        batch = self._rows()
        logits = scores[0, : len(batch)]
        if logits.device.type == "mps":  # no float64 there
            logits = logits.cpu()
        self._masks.wait()
        sampler = StepSampler(logits, batch, self._logits_buffer)
        sampler.make()
        # A failed row's token is never used, but it has to be an id.
        output_ids[0, : len(batch)].copy_(torch.tensor(sampler.tokens).clamp(min=0))
        self._conclude(sampler)

    def _conclude(self, sampler: StepSampler) -> None:
        results: StepResults = []
        ahead: list[TokenMask] = []
        for place, row in enumerate(sampler.batch):
            if row is None or row.ended:
                continue
            item, run = _advance(sampler, place, row)
            row.ended = item.finish_reason is not None or item.error is not None
            mask = row.mask
            if not row.ended and mask is not None and mask.is_open and (mask.ahead or mask.due):
                ahead.append(mask)
            results.append((row, item))
            if run:
                self._runs.append((row.key, run))
                results += ((row, Sampled(token_id)) for token_id in run)
        self._masks.ask(ahead)
        self._report(results)


def _advance(sampler: StepSampler, place: int, row: Row) -> tuple[Sampled, tuple[int, ...]]:
    """The row's next token, and those that its grammar forces after it; its state includes them.

    An error ends the row alone.
    """
    try:
        item = _outcome(sampler, place, row)
        if row.mask is None or item.error is not None or item.finish_reason is not None:
            return item, ()
        row.mask.take(sampler.tokens[place])
        return item, row.take_forced()
    except Exception as error:
        logger.exception("sampling failed")
        return Sampled(error=BackendFailed(f"sampling failed: {error}")), ()


def _outcome(sampler: StepSampler, place: int, row: Row) -> Sampled:
    error = sampler.errors.get(place)
    if error is not None:
        return Sampled(error=error)
    if row.mask is not None and row.mask.complete:
        return Sampled(finish_reason="stop")
    token_id = sampler.tokens[place]
    if token_id < 0:
        return Sampled(error=BackendFailed("the model's logits are not numbers"))
    logprobs = None
    if place in sampler.logprobs:
        own, top = sampler.logprobs[place]
        logprobs = TokenLogprobs(token_id, own, tuple(top))
    return Sampled(token_id, logprobs, row.accept(token_id))
