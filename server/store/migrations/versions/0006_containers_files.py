"""Uploaded files, and containers with their files."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ID = sa.String(80)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _create_files()
    _create_containers()
    _create_container_files()


def _create_files() -> None:
    op.create_table(
        "files",
        sa.Column("place", SERIAL, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("purpose", ID, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.PrimaryKeyConstraint("place", name="pk_files"),
        sa.UniqueConstraint("id", name="uq_files_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_files_created_at", "files", ["created_at"])
    op.create_index("ix_files_expires_at", "files", ["expires_at"])
    op.create_index("ix_files_owner_place", "files", ["owner", "place"])


def _create_containers() -> None:
    op.create_table(
        "containers",
        sa.Column("place", SERIAL, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("owner", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("last_active_at", sa.Double, nullable=False),
        sa.Column("idle_minutes", sa.Integer, nullable=False),
        sa.Column("memory_limit", sa.String(10), nullable=False),
        sa.Column("expired", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("place", name="pk_containers"),
        sa.UniqueConstraint("id", name="uq_containers_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_containers_last_active_at", "containers", ["last_active_at"])
    op.create_index("ix_containers_owner_place", "containers", ["owner", "place"])


def _create_container_files() -> None:
    op.create_table(
        "container_files",
        sa.Column("place", SERIAL, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("container_id", ID, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("source", sa.String(10), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("modified", sa.BigInteger, nullable=False),
        sa.Column("origin", ID),
        sa.PrimaryKeyConstraint("place", name="pk_container_files"),
        sa.UniqueConstraint("id", name="uq_container_files_id"),
        sa.ForeignKeyConstraint(
            ["container_id"],
            ["containers.id"],
            name="fk_container_files_container_id",
            ondelete="CASCADE",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_container_files_container_id_path",
        "container_files",
        ["container_id", "path"],
        unique=True,
    )
