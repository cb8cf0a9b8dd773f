"""Computes the masks of a step on other threads, while the engine's thread computes."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from llguidance import LLExecutor
from llguidance.numpy import fill_next_token_bitmask_par

from adapters.grammars import TokenMask

logger = logging.getLogger(__name__)


class MaskWorker:
    """Computes the masks of many rows at once, on llguidance's threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "masks")
        self._executor = LLExecutor()
        self._bits = np.zeros((0, 0), np.int32)
        self._masks: Sequence[TokenMask] = ()
        self._pending: Future[None] | None = None

    def start(self, masks: Sequence[TokenMask]) -> None:
        """Begin to compute `masks`. They must not be used before `wait` returns."""
        if not masks:
            return
        words = masks[0].words
        if self._bits.shape[0] < len(masks) or self._bits.shape[1] != words:
            self._bits = np.zeros((len(masks), words), np.int32)
        self._masks = masks
        matchers = [(mask.matcher, place) for place, mask in enumerate(masks)]
        self._pending = self._pool.submit(
            fill_next_token_bitmask_par, self._executor, matchers, self._bits
        )

    def wait(self) -> None:
        """Wait until the masks of the last `start` are set."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        masks, self._masks = self._masks, ()
        try:
            pending.result()
        except Exception:
            # Each row computes its own mask then, and only rows fail whose own mask fails.
            logger.exception("the masks of a step failed")
            return
        for mask, bits in zip(masks, self._bits, strict=False):
            mask.set_bits(bits)

    def close(self) -> None:
        """End the thread after the masks that it computes now."""
        self._pool.shutdown(wait=False, cancel_futures=True)
