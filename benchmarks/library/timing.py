"""Durations and rates, by the clock and of processor time."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.library.figures import median_ratio


@dataclass(frozen=True)
class Rate:
    """How much was done per second of the clock, and per second of processor time."""

    clock: float
    processor: float


class Stopwatch:
    """Runs from its creation. Processor time is that of this process."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), time.process_time()

    def rate(self, count: int) -> Rate:
        """The rate of what was done until now."""
        clock = time.perf_counter() - self._clock
        return Rate(count / clock, count / (time.process_time() - self._processor))


def median(rates: Sequence[Rate]) -> Rate:
    """The medians of both kinds."""
    return Rate(
        statistics.median(rate.clock for rate in rates),
        statistics.median(rate.processor for rate in rates),
    )


def ratio(over: Sequence[Rate], under: Sequence[Rate]) -> Rate:
    """The medians of the ratios of pairs, which were measured one after the other."""
    return Rate(
        median_ratio([rate.clock for rate in over], [rate.clock for rate in under]),
        median_ratio([rate.processor for rate in over], [rate.processor for rate in under]),
    )


def shortest(
    work: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The seconds of the fastest of some runs."""
    seconds = []
    for _ in range(runs):
        began = clock()
        work()
        seconds.append(clock() - began)
    return min(seconds)
