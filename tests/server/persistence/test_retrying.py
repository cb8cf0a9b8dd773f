"""How long writes to a store that is away are repeated."""

import pytest

from server.persistence.retrying import FIRST_PAUSE, LONGEST_PAUSE, NO_RETRY, Retries, RetryPolicy
from server.store.responses.base import RunLost, StoreDamaged, StoreUnavailable

AWAY = StoreUnavailable("away")


class Clock:
    """Goes on by what is slept."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def pauses(retries: Retries, clock: Clock, most: int = 1000) -> list[float]:
    made: list[float] = []
    while len(made) < most and (pause := retries.pause_after(AWAY)) is not None:
        made.append(pause)
        clock.seconds += pause
    return made


def test_pauses_grow_up_to_a_bound_and_end_with_the_patience() -> None:
    clock = Clock()
    made = pauses(Retries(RetryPolicy(60.0, now=clock)), clock)
    assert clock.seconds == pytest.approx(60.0)
    assert FIRST_PAUSE / 2 <= made[0] <= FIRST_PAUSE
    assert LONGEST_PAUSE / 2 <= max(made) <= LONGEST_PAUSE
    assert 30 <= len(made) <= 70


def test_an_outage_ends_with_a_success() -> None:
    clock = Clock()
    retries = Retries(RetryPolicy(10.0, now=clock))
    assert sum(pauses(retries, clock)) == pytest.approx(10.0)
    retries.succeeded()
    first, *_ = pauses(retries, clock)
    assert first <= FIRST_PAUSE
    assert clock.seconds == pytest.approx(20.0)


def test_without_patience_nothing_is_repeated() -> None:
    assert Retries(NO_RETRY).pause_after(AWAY) is None


def test_a_server_that_stops_repeats_nothing() -> None:
    retries = Retries(RetryPolicy(60.0, stopping=lambda: True))
    assert retries.pause_after(AWAY) is None


@pytest.mark.parametrize("error", [RunLost("lost"), StoreDamaged("damaged", advice="mend it")])
def test_what_no_time_mends_is_not_repeated(error: StoreUnavailable) -> None:
    assert Retries(RetryPolicy(60.0)).pause_after(error) is None


async def test_a_write_is_repeated_until_it_succeeds() -> None:
    failures = [AWAY, AWAY]

    async def write() -> None:
        if failures:
            raise failures.pop()

    retries = Retries(RetryPolicy(60.0))
    await retries.until_written(write)
    assert failures == []


async def test_a_write_that_fails_for_too_long_fails() -> None:
    async def write() -> None:
        raise AWAY

    with pytest.raises(StoreUnavailable):
        await Retries(RetryPolicy(0.01)).until_written(write)
