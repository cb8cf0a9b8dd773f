"""Answered requests for approval, in every kind of store."""

import asyncio

from sqlalchemy import update

from server.store.approvals.base import KEEP_SECONDS
from server.store.approvals.memory import MemoryAnsweredRequests
from server.store.responses.base import Store
from server.store.tables import answered_approvals
from tests.server.store.conftest import Database


async def test_a_request_is_answered_once(store: Store) -> None:
    request = "mcpr_" + "x" * 500
    assert not await store.approvals.answered("me", request)
    assert await store.approvals.claim("me", request)
    assert await store.approvals.answered("me", request)
    assert not await store.approvals.claim("me", request)


async def test_owners_are_separate(store: Store) -> None:
    assert await store.approvals.claim("me", "mcpr_1")
    assert not await store.approvals.answered("you", "mcpr_1")
    assert await store.approvals.claim("you", "mcpr_1")


async def test_one_of_several_claims_succeeds(store: Store) -> None:
    claims = await asyncio.gather(*(store.approvals.claim("me", "mcpr_1") for _ in range(8)))
    assert claims.count(True) == 1


async def test_a_sweep_keeps_answers_while_seals_are_valid(database: Database) -> None:
    store = await database.open()
    await store.approvals.claim("me", "mcpr_1")
    await store.sweep(0)
    assert await store.approvals.answered("me", "mcpr_1")
    async with store.database.writing() as connection:
        old = answered_approvals.c.answered_at - KEEP_SECONDS - 1
        await connection.execute(update(answered_approvals).values(answered_at=old))
    await store.sweep(0)
    assert not await store.approvals.answered("me", "mcpr_1")


async def test_memory_is_bounded() -> None:
    requests = MemoryAnsweredRequests(capacity=2)
    for name in ("a", "b", "c"):
        assert await requests.claim("me", name)
    assert [await requests.answered("me", name) for name in ("a", "b", "c")] == [False, True, True]
