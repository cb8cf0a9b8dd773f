"""Lists of an owner's conversations and responses."""

from alembic import op

revision = "0008"
down_revision = "0007"

LISTED = ("conversations", "responses")


def upgrade() -> None:
    """Index both by owner and time."""
    for table in LISTED:
        op.create_index(f"ix_{table}_owner_created_at", table, ["owner", "created_at", "id"])
