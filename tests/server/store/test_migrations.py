"""Migrations of what earlier versions stored."""

from typing import Any

import orjson
import pytest
from sqlalchemy import text

from server.store.responses.sql import SqlStore
from server.store.sqlalchemy_engine import migrate, open_engine, parse_url

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
    store = SqlStore(database_url)
    await store.start()
    await store.stop()
    engine = open_engine(parse_url(database_url))
    row = {"body": orjson.dumps({"id": "c", **fields}).decode()}
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0008'"))
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
