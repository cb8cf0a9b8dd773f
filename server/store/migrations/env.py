"""Alembic's entry point: runs migrations on the connection of `server.store.sqlalchemy_engine`."""

from alembic import context

from server.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
