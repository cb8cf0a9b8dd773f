"""An index of stored chat completions by their metadata, in the order of lists."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

ID = sa.String(80)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Copy the owner and the place of each completion to its metadata, and index them."""
    op.add_column("chat_metadata", sa.Column("owner", ID))
    op.add_column("chat_metadata", sa.Column("place", SERIAL))
    op.execute(
        "UPDATE chat_metadata SET (owner, place) ="
        " (SELECT owner, place FROM chat_completions WHERE id = completion_id)"
    )
    with op.batch_alter_table("chat_metadata") as table:
        table.alter_column("owner", existing_type=ID, nullable=False)
        table.alter_column("place", existing_type=SERIAL, nullable=False)
    op.create_index(
        "ix_chat_metadata_owner_key_value_place",
        "chat_metadata",
        ["owner", "key", "value", "place"],
    )
