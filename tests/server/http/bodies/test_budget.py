import asyncio

import pytest

from server.errors import BodyMemoryExhausted
from server.http.bodies.budget import Budget, Lease


def test_what_all_leases_charge_together_is_bounded() -> None:
    budget = Budget(10)
    first, second = Lease(budget), Lease(budget)
    first.charge(6)
    with pytest.raises(BodyMemoryExhausted):
        second.charge(5)
    second.charge(4)
    assert budget.free == 0


def test_a_body_that_does_not_fit_has_a_retry_after() -> None:
    with pytest.raises(BodyMemoryExhausted) as caught:
        Lease(Budget(1)).charge(2)
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})


def test_requiring_charges_nothing() -> None:
    budget = Budget(10)
    Lease(budget).require(10)
    assert budget.used == 0
    with pytest.raises(BodyMemoryExhausted):
        Lease(budget).require(11)


def test_a_part_or_all_is_taken_back() -> None:
    budget = Budget(10)
    lease = Lease(budget)
    lease.charge(10)
    lease.refund(4)
    assert budget.used == 6
    lease.release()
    lease.release()
    assert budget.used == 0


def test_what_grows_and_shrinks_is_charged_at_its_size() -> None:
    budget = Budget(10)
    lease = Lease(budget)
    for size in (6, 9, 9, 2):
        lease.resize(size)
        assert budget.used == size
    with pytest.raises(BodyMemoryExhausted):
        lease.resize(11)
    assert budget.used == 2


def test_the_most_that_a_lease_charged_stays_when_less_is_charged() -> None:
    lease = Lease(Budget(10))
    for size in (6, 4):
        lease.charge(size)
        lease.release()
    assert lease.most == 6


async def test_a_request_that_ends_releases_its_lease_with_the_work_that_outlasts_it() -> None:
    budget = Budget(10)
    lease = Lease(budget)
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    lease.charge(10)
    lease.extend_until(work)
    lease.end()
    assert budget.used == 10
    work.set_result(None)
    await asyncio.sleep(0)
    assert budget.used == 0
