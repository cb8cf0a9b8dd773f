"""An index of the items of conversations, to which requests refer by their ids."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the index."""
    op.create_index("ix_conversation_items_item_id", "conversation_items", ["item_id"])
