"""The sampled messages of chat completions, once for all calls of a turn."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

ID = sa.String(80)


def upgrade() -> None:
    """Split the table of calls in two. Each call of earlier versions has a turn of its own."""
    op.create_table(
        "chat_messages",
        sa.Column("turn", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("completion_id", ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("tokens", sa.LargeBinary),
        sa.PrimaryKeyConstraint("turn", "position", name="pk_chat_messages"),
        _of_completion("chat_messages"),
    )
    op.create_index("ix_chat_messages_completion_id", "chat_messages", ["completion_id"])
    op.execute(
        "INSERT INTO chat_messages (turn, position, completion_id, message, tokens)"
        " SELECT call_id, position, completion_id, message, tokens FROM chat_calls"
    )
    op.drop_table("chat_calls")
    op.create_table(
        "chat_calls",
        sa.Column("call_id", ID, nullable=False),
        sa.Column("turn", ID, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("completion_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("call_id", name="pk_chat_calls"),
        _of_completion("chat_calls"),
    )
    op.create_index("ix_chat_calls_completion_id", "chat_calls", ["completion_id"])
    op.execute(
        "INSERT INTO chat_calls (call_id, turn, length, completion_id)"
        " SELECT turn, turn, count(*), min(completion_id) FROM chat_messages GROUP BY turn"
    )


def _of_completion(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["completion_id"],
        ["chat_completions.id"],
        name=f"fk_{table}_completion_id",
        ondelete="CASCADE",
    )
