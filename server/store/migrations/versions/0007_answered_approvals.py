"""Requests for approval that have been answered."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "answered_approvals",
        sa.Column("owner", sa.String(80), nullable=False),
        sa.Column("request", sa.String(80), nullable=False),
        sa.Column("answered_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("owner", "request", name="pk_answered_approvals"),
    )
    op.create_index("ix_answered_approvals_answered_at", "answered_approvals", ["answered_at"])
