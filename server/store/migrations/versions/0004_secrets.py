"""Secrets that all gateways of a store share: the key that seals reasoning."""

import sqlalchemy as sa
from alembic import op
from cryptography.fernet import Fernet

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table, with a new key. Concurrent upgrades are serialized."""
    secrets = op.create_table(
        "secrets",
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    op.bulk_insert(secrets, [{"name": "seal", "value": Fernet.generate_key().decode()}])
