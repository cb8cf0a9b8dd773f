"""Masks for the rows of a step, found out beside the engine's thread."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from llguidance import LLExecutor
from llguidance.numpy import fill_next_token_bitmask_par

from adapters.grammars import TokenMask

logger = logging.getLogger(__name__)


class MaskWorker:
    """Finds out which tokens may come next, on other threads while the engine computes."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "masks")
        self._executor = LLExecutor()
        self._bank = np.zeros((0, 0), np.int32)
        self._asked: Sequence[TokenMask] = ()
        self._pending: Future[None] | None = None

    def ask(self, masks: Sequence[TokenMask]) -> None:
        """Begin to find out; `wait` before looking at any of these masks."""
        if not masks:
            return
        words = masks[0].words
        if self._bank.shape[0] < len(masks) or self._bank.shape[1] != words:
            self._bank = np.zeros((len(masks), words), np.int32)
        self._asked = masks
        matchers = [(mask.matcher, place) for place, mask in enumerate(masks)]
        self._pending = self._pool.submit(
            fill_next_token_bitmask_par, self._executor, matchers, self._bank
        )

    def wait(self) -> None:
        """What was asked is known when this returns."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        asked, self._asked = self._asked, ()
        try:
            pending.result()
        except Exception:
            # Each row asks its own mask then, and only those fail whose mask does.
            logger.exception("the masks of a step failed")
            return
        for mask, bits in zip(asked, self._bank, strict=False):
            mask.know(bits)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
