"""The deletion of expired responses in a database."""

import logging
from typing import Any

from sqlalchemy import Select, delete, exists, literal, select, update
from sqlalchemy.exc import IntegrityError

from server.store.batches import change_in_batches
from server.store.chains import is_prunable
from server.store.database import Database
from server.store.tables import responses, runs

logger = logging.getLogger(__name__)

_MOST_LEAVES = 500
_MOST_DEPTH = 100
_ATTEMPTS = 10


async def sweep_responses(database: Database, age: float) -> int:
    """Delete the responses that are older than `age` seconds; return their number.

    Those that others continue are marked, and removed with the last of these.
    """
    columns = responses.c
    old = columns.created_at < database.clock - age
    expired = select(columns.id).where(old, ~columns.deleted, ~_has_run())
    marked = await change_in_batches(
        database,
        expired,
        lambda ids: (
            update(responses).where(columns.id.in_(ids), ~columns.deleted).values(deleted=True)
        ),
    )
    for _ in range(_ATTEMPTS):
        try:
            await change_in_batches(
                database, _dead(), lambda ids: delete(responses).where(columns.id.in_(ids))
            )
            break
        except IntegrityError:
            logger.info("an expired response was continued meanwhile")
    return marked


def _dead() -> Select[Any]:
    """The ids of deleted responses that no other one continues, each before its predecessor.

    From each leaf it goes back as long as the predecessor has no other continuation.
    """
    columns, other = responses.c, responses.alias()
    leaves = (
        select(columns.id, columns.previous_id, literal(0).label("depth"))
        .where(*is_prunable())
        .limit(_MOST_LEAVES)
        .subquery()
    )
    dead = select(leaves).cte("dead", recursive=True)
    is_continued = (other.c.previous_id == columns.id) & (other.c.id != dead.c.id)
    dead = dead.union_all(
        select(columns.id, columns.previous_id, dead.c.depth + 1)
        .join(dead, columns.id == dead.c.previous_id)
        .where(
            columns.deleted,
            dead.c.depth < _MOST_DEPTH,
            ~_has_run(),
            ~exists().where(is_continued).correlate(responses, dead),
        )
    )
    return select(dead.c.id).order_by(dead.c.depth)


def _has_run() -> Any:
    return exists().where(runs.c.response_id == responses.c.id).correlate(responses)
