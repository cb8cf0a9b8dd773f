"""The time of the last addition to a conversation."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column. No conversation was stored before it."""
    op.add_column(
        "conversations",
        sa.Column("touched_at", sa.Double, nullable=False, server_default=sa.text("0")),
    )
    op.create_index("ix_conversations_touched_at", "conversations", ["touched_at"])
