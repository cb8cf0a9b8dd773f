"""The tables. A change here requires a migration in migrations/versions; a test compares them.

The row of a deleted response that others continue stays, marked `deleted`, until the last of them
is deleted.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    false,
    text,
)

ID = String(80)
# SQLite generates values only for columns whose type is exactly INTEGER.
SERIAL = BigInteger().with_variant(Integer, "sqlite")
INPUT, OUTPUT = 0, 1

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)

conversations = Table(
    "conversations",
    metadata,
    Column("id", ID, primary_key=True),
    Column("owner", ID, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("touched_at", Double, nullable=False, index=True, server_default=text("0")),
    Column("start_date", String(10), nullable=False),
    Column("metadata", Text, nullable=False),
    Column("tool_state", Text),
    Index("ix_conversations_owner_created_at", "owner", "created_at", "id"),
)

conversation_items = Table(
    "conversation_items",
    metadata,
    Column("place", SERIAL, primary_key=True),
    Column(
        "conversation_id",
        ID,
        ForeignKey("conversations.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("item_id", ID, nullable=False, index=True),
    Column("item", Text, nullable=False),
    Column("message", Text),
    Column("tokens", LargeBinary),
    Column("result", Text),
    Index("ix_conversation_items_conversation_id_place", "conversation_id", "place"),
    # A place is never reused: responses store how far they have read.
    sqlite_autoincrement=True,
)

responses = Table(
    "responses",
    metadata,
    Column("id", ID, primary_key=True),
    Column("owner", ID, nullable=False),
    # No cascade: a row stays while other responses continue it.
    Column("previous_id", ID, ForeignKey("responses.id"), index=True),
    # No foreign key: deleting a conversation keeps its responses.
    Column("conversation_id", ID),
    Column("seen", BigInteger),
    Column("created_at", Double, nullable=False, index=True),
    Column("deleted", Boolean, nullable=False, server_default=false()),
    Column("start_date", String(10), nullable=False),
    Column("body", Text, nullable=False),
    Column("tool_state", Text),
    Index("ix_responses_owner_created_at", "owner", "created_at", "id"),
)
Index(
    "ix_responses_deleted",
    responses.c.id,
    sqlite_where=responses.c.deleted,
    postgresql_where=responses.c.deleted,
)

items = Table(
    "items",
    metadata,
    Column("place", SERIAL, primary_key=True),
    Column(
        "response_id",
        ID,
        ForeignKey("responses.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("side", SmallInteger, nullable=False),
    Column("item_id", ID, nullable=False, index=True),
    Column("call_id", ID, index=True),
    Column("item", Text, nullable=False),
    Column("message", Text),
    Column("tokens", LargeBinary),
    Column("result", Text),
)

events = Table(
    "events",
    metadata,
    Column("response_id", ID, ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("first", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("response_id", ID, ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("gateway", ID, nullable=False),
    Column("beat_at", Double, nullable=False),
    Column("cancelled", Boolean, nullable=False, server_default=false()),
)

chat_completions = Table(
    "chat_completions",
    metadata,
    Column("place", SERIAL, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("owner", ID, nullable=False),
    Column("created_at", Double, nullable=False, index=True),
    Column("model", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("messages", LargeBinary, nullable=False),
    Index("ix_chat_completions_owner_place", "owner", "place"),
    # A place is never reused: pages continue after a place.
    sqlite_autoincrement=True,
)

chat_metadata = Table(
    "chat_metadata",
    metadata,
    Column(
        "completion_id", ID, ForeignKey("chat_completions.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    # Those of the completion, so that an index finds the completions with a label in their order.
    Column("owner", ID, nullable=False),
    Column("place", SERIAL, nullable=False),
    Index("ix_chat_metadata_owner_key_value_place", "owner", "key", "value", "place"),
)

chat_messages = Table(
    "chat_messages",
    metadata,
    Column("turn", ID, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column(
        "completion_id",
        ID,
        ForeignKey("chat_completions.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("message", Text, nullable=False),
    Column("tokens", LargeBinary),
)

# A call ends the first `length` messages of its turn.
chat_calls = Table(
    "chat_calls",
    metadata,
    Column("call_id", ID, primary_key=True),
    Column("turn", ID, nullable=False),
    Column("length", Integer, nullable=False),
    Column(
        "completion_id",
        ID,
        ForeignKey("chat_completions.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
)

files = Table(
    "files",
    metadata,
    Column("place", SERIAL, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("owner", ID, nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", ID, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False, index=True),
    Column("expires_at", Double, index=True),
    Index("ix_files_owner_place", "owner", "place"),
    sqlite_autoincrement=True,
)

containers = Table(
    "containers",
    metadata,
    Column("place", SERIAL, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("owner", ID, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("last_active_at", Double, nullable=False, index=True),
    Column("idle_minutes", Integer, nullable=False),
    Column("memory_limit", String(10), nullable=False),
    Column("expired", Boolean, nullable=False, server_default=false()),
    Index("ix_containers_owner_place", "owner", "place"),
    sqlite_autoincrement=True,
)

container_files = Table(
    "container_files",
    metadata,
    Column("place", SERIAL, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("container_id", ID, ForeignKey("containers.id", ondelete="CASCADE"), nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("source", String(10), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("origin", ID),
    Index("ix_container_files_container_id_path", "container_id", "path", unique=True),
    sqlite_autoincrement=True,
)

answered_approvals = Table(
    "answered_approvals",
    metadata,
    Column("owner", ID, primary_key=True),
    Column("request", ID, primary_key=True),
    Column("answered_at", Double, nullable=False, index=True),
)

SEAL = "seal"
secrets = Table(
    "secrets",
    metadata,
    Column("name", ID, primary_key=True),
    Column("value", Text, nullable=False),
)
