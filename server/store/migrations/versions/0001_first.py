"""Responses, their items, events and runs; conversations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.String(80)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the first tables."""
    _make_conversations()
    op.create_table(
        "responses",
        sa.Column("id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("previous_id", ID),
        sa.Column("conversation_id", ID),
        sa.Column("seen", sa.BigInteger),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("start_date", sa.String(10), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_responses"),
        sa.ForeignKeyConstraint(["previous_id"], ["responses.id"], name="fk_responses_previous_id"),
    )
    op.create_index("ix_responses_previous_id", "responses", ["previous_id"])
    op.create_index("ix_responses_created_at", "responses", ["created_at"])
    op.create_index(
        "ix_responses_deleted",
        "responses",
        ["id"],
        sqlite_where=sa.text("deleted"),
        postgresql_where=sa.text("deleted"),
    )
    _make_parts_of_responses()


def _make_conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("start_date", sa.String(10), nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    op.create_table(
        "conversation_items",
        sa.Column("place", SERIAL, nullable=False),
        sa.Column("conversation_id", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("message", sa.Text),
        sa.Column("tokens", sa.LargeBinary),
        sa.PrimaryKeyConstraint("place", name="pk_conversation_items"),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name="fk_conversation_items_conversation_id",
            ondelete="CASCADE",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_conversation_items_conversation_id_place",
        "conversation_items",
        ["conversation_id", "place"],
    )


def _make_parts_of_responses() -> None:
    op.create_table(
        "items",
        sa.Column("place", SERIAL, nullable=False),
        sa.Column("response_id", ID, nullable=False),
        sa.Column("side", sa.SmallInteger, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("call_id", ID),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("message", sa.Text),
        sa.Column("tokens", sa.LargeBinary),
        sa.PrimaryKeyConstraint("place", name="pk_items"),
        _of_response("items"),
    )
    for column in ("response_id", "item_id", "call_id"):
        op.create_index(f"ix_items_{column}", "items", [column])
    op.create_table(
        "events",
        sa.Column("response_id", ID, nullable=False),
        sa.Column("first", sa.Integer, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("response_id", "first", name="pk_events"),
        _of_response("events"),
    )
    op.create_table(
        "runs",
        sa.Column("response_id", ID, nullable=False),
        sa.Column("gateway", ID, nullable=False),
        sa.Column("beat_at", sa.Double, nullable=False),
        sa.Column("cancelled", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("response_id", name="pk_runs"),
        _of_response("runs"),
    )


def _of_response(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["response_id"], ["responses.id"], name=f"fk_{table}_response_id", ondelete="CASCADE"
    )
