"""What a role of PostgreSQL has to be allowed in the store's database."""

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store.tables import metadata

_ON_TABLES = ("SELECT", "INSERT", "UPDATE", "DELETE")


class MissingPrivileges(PermissionError):
    """The role may not do all that the store needs. The message names each privilege."""


async def check_privileges(connection: AsyncConnection) -> None:
    """Raise MissingPrivileges unless the role may read and write all tables."""
    needed = dict(_needed())
    allowed = (await connection.execute(select(*needed.values()))).one()
    missing = [name for name, is_allowed in zip(needed, allowed, strict=True) if not is_allowed]
    if missing:
        raise MissingPrivileges(f"the role lacks {', '.join(missing)}")


def _needed() -> list[tuple[str, ColumnElement[bool]]]:
    """Each privilege, and whether the role has it."""
    needed: list[tuple[str, ColumnElement[bool]]] = []
    for table in metadata.sorted_tables:
        for privilege in _ON_TABLES:
            has = func.has_table_privilege(table.name, privilege)
            needed.append((f"{privilege} on {table.name}", has))
        column = table.autoincrement_column
        if column is not None:
            # As PostgreSQL names the sequence of a serial column.
            sequence = f"{table.name}_{column.name}_seq"
            has = func.has_sequence_privilege(
                func.pg_get_serial_sequence(table.name, column.name), "USAGE"
            )
            needed.append((f"USAGE on {sequence}", has))
    return needed
