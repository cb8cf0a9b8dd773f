"""Migrations of what earlier versions stored."""

from typing import Any

import orjson
import pytest
from sqlalchemy import text

from server.store.errors import StoreTooNew
from server.store.lists import ListQuery
from server.store.responses.sql import SqlStore
from server.store.sqlalchemy_engine import migrate, open_engine, parse_url
from tests.server.store.conftest import Database

SECRET = {"type": "mcp", "server_label": "a", "authorization": "secret"}
OWN = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"tools": [SECRET, OWN]}, {"tools": [OWN]}),
        ({"tools": [OWN]}, {"tools": [OWN]}),
        ({"response_format": {"type": "mcp"}}, {"response_format": {"type": "mcp"}}),
    ],
)
async def test_secrets_of_mcp_servers_leave_stored_completions(
    database_url: str, fields: dict[str, Any], left: dict[str, Any]
) -> None:
    engine = open_engine(parse_url(database_url))
    await migrate(engine, "0008")
    row = {"body": orjson.dumps({"id": "c", **fields}).decode()}
    async with engine.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO chat_completions (id, owner, created_at, model, body, messages) "
                "VALUES ('c', 'o', 1, 'm', :body, '')"
            ),
            row,
        )
    await migrate(engine)
    async with engine.begin() as connection:
        body = await connection.scalar(text("SELECT body FROM chat_completions"))
    await engine.dispose()
    assert orjson.loads(body) == {"id": "c", **left}


async def test_a_store_of_a_newer_version_is_refused(database: Database) -> None:
    store = await database.open()
    async with store.database.writing() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreTooNew):
        await database.open()


async def test_an_upgrade_is_logged_and_a_new_store_is_not(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "server.store")
    engine = open_engine(parse_url(database.url))
    await migrate(engine, "0009")
    assert not caplog.messages
    await migrate(engine)
    assert [message.split(";")[0] for message in caplog.messages] == [
        "upgrading the store to a newer schema"
    ]
    caplog.clear()
    await migrate(engine)
    assert not caplog.messages
    await engine.dispose()


async def test_calls_of_earlier_versions_keep_their_messages(database_url: str) -> None:
    engine = open_engine(parse_url(database_url))
    await migrate(engine, "0009")
    completion = (
        "INSERT INTO chat_completions (id, owner, created_at, model, body, messages)"
        " VALUES ('c', 'o', 1, 'm', '{}', '')"
    )
    call = (
        "INSERT INTO chat_calls (call_id, position, completion_id, message)"
        " VALUES (:call, :position, 'c', :message)"
    )
    async with engine.begin() as connection:
        await connection.execute(text(completion))
        for name, count in (("one", 1), ("two", 2)):
            for position in range(count):
                message = orjson.dumps({"role": "assistant", "content": str(position)}).decode()
                fields = {"call": name, "position": position, "message": message}
                await connection.execute(text(call), fields)
    await engine.dispose()
    store = SqlStore(database_url)
    await store.start()
    found = await store.chat_completions.messages_up_to_call("o", ["one", "two"])
    await store.stop()
    texts = {name: [each.content for each in messages] for name, messages in found.items()}
    assert texts == {"one": ["0"], "two": ["0", "1"]}


async def test_completions_of_earlier_versions_are_listed_by_their_metadata(
    database_url: str,
) -> None:
    engine = open_engine(parse_url(database_url))
    await migrate(engine, "0011")
    completion = (
        "INSERT INTO chat_completions (id, owner, created_at, model, body, messages)"
        " VALUES (:id, 'o', 1, 'm', :body, '')"
    )
    label = "INSERT INTO chat_metadata (completion_id, key, value) VALUES (:id, 'k', :value)"
    async with engine.begin() as connection:
        for name in ("one", "two"):
            body = orjson.dumps({"id": name}).decode()
            await connection.execute(text(completion), {"id": name, "body": body})
            await connection.execute(text(label), {"id": name, "value": name})
    await engine.dispose()
    store = SqlStore(database_url)
    await store.start()
    query = ListQuery(9, "asc")
    page = await store.chat_completions.list("o", query, metadata={"k": "two"})
    await store.chat_completions.delete("o", "two")
    left = await store.chat_completions.list("o", query, metadata={"k": "two"})
    await store.stop()
    assert ([*page.entries], [*left.entries]) == ([{"id": "two"}], [])
