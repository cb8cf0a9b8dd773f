"""One engine step: a token for every row, then one report with the results of all rows.

It replaces transformers' own `ModelRunner._sample`. A logits processor would do as well, but the
runner computes the argmax over the whole batch after it, which costs a tenth of a step with a
vocabulary of this size.
"""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from adapters.base import TokenLogprobs
from adapters.errors import BackendFailed
from adapters.grammars import TokenMask
from adapters.local.steps.masks import MaskWorker
from adapters.local.steps.row import Row, Sampled
from adapters.local.steps.step_sampler import LogitsBuffer, StepSampler

logger = logging.getLogger(__name__)

StepResults = list[tuple[Row, Sampled]]


class Step:
    """Chooses the tokens of a batch. All calls but `free_buffers` are on the engine's thread.

    rows: returns the rows of the batch, None for a request that was released.
    report: called with the results of each step.
    """

    def __init__(self, rows: Callable[[], list[Row | None]], report: Callable[[StepResults], None]):
        self._rows = rows
        self._report = report
        self._masks = MaskWorker()
        self._logits_buffer = LogitsBuffer()
        self._runs: list[tuple[str, tuple[int, ...]]] = []

    def close(self) -> None:
        self._masks.close()

    def free_buffers(self) -> None:
        """Free memory that steps reuse. May be called on any thread, also during a step."""
        self._logits_buffer.free()

    def take_runs(self) -> list[tuple[str, tuple[int, ...]]]:
        """The keys of requests, and the tokens that grammars force after those of the last step."""
        runs, self._runs = self._runs, []
        return runs

    def __call__(self, scores: Tensor, output_ids: Tensor) -> None:
        """Choose a token for each row of the batch, and report the results.

        scores: [1, n, vocabulary] of float32; n may exceed the rows of the batch while prompts are
        processed. output_ids: [., >= n]; the ids are written to its first row.
        """
        batch = self._rows()
        logits = scores[0, : len(batch)]
        if logits.device.type == "mps":  # no float64 there
            logits = logits.cpu()
        self._masks.wait()
        sampler = StepSampler(logits, batch, self._logits_buffer)
        sampler.choose()
        # A failed row's token is never used, but it has to be an id.
        output_ids[0, : len(batch)].copy_(torch.tensor(sampler.tokens).clamp(min=0))
        self._advance_all(sampler)

    def _advance_all(self, sampler: StepSampler) -> None:
        results: StepResults = []
        to_compute: list[TokenMask] = []
        for place, row in enumerate(sampler.batch):
            if row is None or row.ended:
                continue
            item, run = _advance(sampler, place, row)
            row.ended = item.finish_reason is not None or item.error is not None
            mask = row.mask
            if not row.ended and mask is not None and mask.needs_computing:
                to_compute.append(mask)
            results.append((row, item))
            if run:
                self._runs.append((row.key, run))
                results += ((row, Sampled(token_id)) for token_id in run)
        # First: the rows have accepted their tokens, whatever fails from here on.
        self._report(results)
        self._masks.start(to_compute)


def _advance(sampler: StepSampler, place: int, row: Row) -> tuple[Sampled, tuple[int, ...]]:
    """The row's next token, and those that its grammar forces after it; its state includes them.

    An error ends this row only.
    """
    try:
        item = _outcome(sampler, place, row)
        if row.mask is None or item.error is not None or item.finish_reason is not None:
            return item, ()
        row.mask.consume(sampler.tokens[place])
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
