"""Entries of MCP servers leave stored chat completions: they have the secrets of clients."""

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

completions = sa.table("chat_completions", sa.column("place"), sa.column("body", sa.Text))


def upgrade() -> None:
    """Remove them from the tools of each completion."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":  # what is replaced would stay in free pages
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    has_entry = completions.c.body.like('%"type":"mcp"%')
    places = connection.scalars(sa.select(completions.c.place).where(has_entry)).all()
    for place in places:
        this = completions.c.place == place
        body = orjson.loads(connection.scalars(sa.select(completions.c.body).where(this)).one())
        if tools := body.get("tools"):
            body["tools"] = [tool for tool in tools if tool["type"] != "mcp"]
            text = orjson.dumps(body).decode()
            connection.execute(sa.update(completions).where(this).values(body=text))
