"""Results of hosted calls, and the state of hosted tools."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns. Nothing that was stored before has a value for them."""
    for table in ("items", "conversation_items"):
        op.add_column(table, sa.Column("result", sa.Text))
    for table in ("responses", "conversations"):
        op.add_column(table, sa.Column("tool_state", sa.Text))
