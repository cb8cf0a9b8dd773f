"""How SQLite finds rows: without reading those that are not asked for."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import event

from server.store.lists import ListQuery
from server.store.responses.sql import SqlStore

IDS = [f"id_{number}" for number in range(200)]


async def plan_of(store: SqlStore, work: Awaitable[Any]) -> list[str]:
    """The steps of SQLite's plans for all statements of the work."""
    engine = store.database.engine
    statements: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        statements.append((statement, parameters))

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    await work
    event.remove(engine.sync_engine, "before_cursor_execute", note)
    async with engine.connect() as connection:
        return [
            row.detail
            for statement, parameters in statements
            for row in await connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {statement}", parameters
            )
        ]


@pytest.mark.parametrize(
    "look_up",
    [
        lambda store: store.items("a", IDS),
        lambda store: store.turns_up_to_calls("a", IDS),
        lambda store: store.chat_completions.messages_up_to_call("a", IDS),
    ],
    ids=["items", "turns", "messages up to calls"],
)
async def test_what_a_request_names_is_not_sought_among_all_that_its_owner_has(
    on_sqlite: SqlStore, look_up: Callable[[SqlStore], Awaitable[Any]]
) -> None:
    plan = await plan_of(on_sqlite, look_up(on_sqlite))
    assert any(step.startswith("SEARCH") for step in plan)
    assert not [step for step in plan if "(owner=" in step]


async def test_a_list_of_conversations_reads_the_first_item_of_each_alone(
    on_sqlite: SqlStore,
) -> None:
    plan = await plan_of(on_sqlite, on_sqlite.conversations.list("a", ListQuery(20, "desc")))
    assert any(step.startswith("CORRELATED SCALAR SUBQUERY") for step in plan)


@pytest.mark.parametrize("more", [{}, {"l": "2"}], ids=["one label", "several labels"])
async def test_a_list_of_completions_with_metadata_reads_those_with_a_label_in_their_order(
    on_sqlite: SqlStore, more: dict[str, str]
) -> None:
    listing = on_sqlite.chat_completions.list(
        "a", ListQuery(20, "desc"), metadata={"k": "longest", **more}
    )
    first, *others = await plan_of(on_sqlite, listing)
    index = "ix_chat_metadata_owner_key_value_place (owner=? AND key=? AND value=?)"
    assert first.startswith("SEARCH chat_metadata USING")
    assert first.endswith(f" INDEX {index}")
    assert not [step for step in others if "owner=" in step or step.startswith("USE TEMP")]


async def test_a_sweep_finds_deleted_responses_without_the_others(on_sqlite: SqlStore) -> None:
    plan = await plan_of(on_sqlite, on_sqlite.sweep(3600))
    assert "SCAN responses USING INDEX ix_responses_deleted" in plan
    assert "SCAN responses" not in plan
