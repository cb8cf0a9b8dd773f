import asyncio

import pytest

from adapters.inbox import Inbox
from tests.waiting import settle


@pytest.fixture
async def inbox() -> Inbox[int]:
    return Inbox()


async def test_what_nobody_waited_for_is_handed_over_at_once(inbox: Inbox[int]) -> None:
    inbox.put(1)
    inbox.put(2)
    assert await inbox.take() == [1, 2]


async def test_who_takes_from_an_empty_inbox_waits(inbox: Inbox[int]) -> None:
    inbox.put(1)
    await inbox.take()
    taking = asyncio.ensure_future(inbox.take())
    await settle()
    assert not taking.done()
    inbox.put(2)
    assert await taking == [2]


async def test_who_waits_gets_all_that_came_before_its_turn(inbox: Inbox[int]) -> None:
    taking = asyncio.ensure_future(inbox.take())
    await settle()
    for number in range(3):
        inbox.put(number)
    assert await taking == [0, 1, 2]


async def test_nothing_is_handed_over_twice(inbox: Inbox[int]) -> None:
    inbox.put(1)
    first = await inbox.take()
    inbox.put(2)
    assert (first, await inbox.take()) == ([1], [2])


@pytest.mark.parametrize("woken", [False, True])
async def test_a_waiter_that_is_cancelled_loses_nothing(inbox: Inbox[int], woken: bool) -> None:
    taking = asyncio.ensure_future(inbox.take())
    await settle()
    if woken:
        inbox.put(1)
    taking.cancel()
    await asyncio.wait([taking])
    assert taking.cancelled()
    if not woken:
        inbox.put(1)
    inbox.put(2)
    assert await inbox.take() == [1, 2]


async def test_an_error_follows_the_items_before_it(inbox: Inbox[int]) -> None:
    inbox.put(1)
    inbox.fail(ValueError("first"))
    inbox.fail(ValueError("second"))
    assert await inbox.take() == [1]
    for _ in range(2):
        with pytest.raises(ValueError, match="first"):
            await inbox.take()


async def test_an_error_wakes_who_waits(inbox: Inbox[int]) -> None:
    taking = asyncio.ensure_future(inbox.take())
    await asyncio.sleep(0)
    inbox.fail(ValueError("boom"))
    with pytest.raises(ValueError, match="boom"):
        await taking
