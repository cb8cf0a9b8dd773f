"""Chat completions, their metadata, and the messages up to their calls."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ID = sa.String(80)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "chat_completions",
        sa.Column("place", SERIAL, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("messages", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("place", name="pk_chat_completions"),
        sa.UniqueConstraint("id", name="uq_chat_completions_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_chat_completions_created_at", "chat_completions", ["created_at"])
    op.create_index("ix_chat_completions_owner_place", "chat_completions", ["owner", "place"])
    op.create_table(
        "chat_metadata",
        sa.Column("completion_id", ID, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("completion_id", "key", name="pk_chat_metadata"),
        _of_completion("chat_metadata"),
    )
    op.create_table(
        "chat_calls",
        sa.Column("call_id", ID, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("completion_id", ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("tokens", sa.LargeBinary),
        sa.PrimaryKeyConstraint("call_id", "position", name="pk_chat_calls"),
        _of_completion("chat_calls"),
    )
    op.create_index("ix_chat_calls_completion_id", "chat_calls", ["completion_id"])


def _of_completion(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["completion_id"],
        ["chat_completions.id"],
        name=f"fk_{table}_completion_id",
        ondelete="CASCADE",
    )
