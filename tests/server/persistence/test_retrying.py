"""How long failed writes are retried."""

import pytest

from server.persistence.retrying import FIRST_PAUSE, LONGEST_PAUSE, NO_RETRY, Retries, RetryPolicy
from server.store.errors import RunLost, StoreDamaged, StoreUnavailable

UNAVAILABLE = StoreUnavailable("unavailable")


class Clock:
    """A clock that advances only when a test sets it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def pauses(retries: Retries, clock: Clock, most: int = 1000) -> list[float]:
    made: list[float] = []
    while len(made) < most and (pause := retries.pause_after(UNAVAILABLE)) is not None:
        made.append(pause)
        clock.seconds += pause
    return made


def test_pauses_grow_up_to_a_limit_and_end_with_the_policys_seconds() -> None:
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


def test_no_retry_retries_nothing() -> None:
    assert Retries(NO_RETRY).pause_after(UNAVAILABLE) is None


def test_a_stopping_server_retries_nothing() -> None:
    retries = Retries(RetryPolicy(60.0, stopping=lambda: True))
    assert retries.pause_after(UNAVAILABLE) is None


@pytest.mark.parametrize("error", [RunLost("resp_1"), StoreDamaged("damaged", advice="restore it")])
def test_permanent_failures_are_not_retried(error: StoreUnavailable) -> None:
    assert Retries(RetryPolicy(60.0)).pause_after(error) is None


async def test_a_write_is_retried_until_it_succeeds() -> None:
    failures = [UNAVAILABLE, UNAVAILABLE]

    async def write() -> None:
        if failures:
            raise failures.pop()

    retries = Retries(RetryPolicy(60.0))
    await retries.until_written(write)
    assert failures == []


async def test_a_write_that_fails_for_too_long_raises() -> None:
    async def write() -> None:
        raise UNAVAILABLE

    with pytest.raises(StoreUnavailable):
        await Retries(RetryPolicy(0.01)).until_written(write)
