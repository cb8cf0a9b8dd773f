"""Reads query parameters: booleans, and a list's limit, order, cursor and filters.

Source: https://platform.openai.com/docs/api-reference/chat/list
"""

from typing import Literal

from starlette.datastructures import QueryParams

from server.schemas.base import MAX_METADATA
from server.schemas.fields import digits, invalid
from server.store.lists import ListQuery

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


def read_paging(
    query: QueryParams,
    *,
    order: Literal["asc", "desc"] = "asc",
    limit: int = DEFAULT_LIMIT,
    most: int = MAX_LIMIT,
) -> ListQuery:
    """The limit, order and cursor of a query. Raises InvalidRequest naming the parameter.

    order, limit: those where the query has none. most: the largest limit.
    """
    limit = digits(query.get("limit", str(limit)), most) or 0
    if not limit:
        raise invalid("limit", f"expected an integer from 1 to {most}")
    match query.get("order", order):
        case "asc":
            order = "asc"
        case "desc":
            order = "desc"
        case _:
            raise invalid("order", "expected 'asc' or 'desc'")
    return ListQuery(limit, order, query.get("after"))


def read_boolean(query: QueryParams, name: str) -> bool:
    """Whether a parameter is `true`; false without it. Raises InvalidRequest for other values."""
    match query.get(name, "false"):
        case "true":
            return True
        case "false":
            return False
    raise invalid(name, "expected 'true' or 'false'")


def read_filter(query: QueryParams, name: str) -> str | None:
    """The value that entries have to have, None for any.

    Raises InvalidRequest for text that a store cannot hold.
    """
    return _storable(name, query[name]) if name in query else None


def read_metadata(query: QueryParams) -> dict[str, str]:
    """The query's `metadata[KEY]=VALUE`.

    Raises InvalidRequest as `read_filter` does, and for more keys than an object can have.
    """
    labels = {
        _storable("metadata", name.removeprefix("metadata[").removesuffix("]")): _storable(
            name, value
        )
        for name, value in query.multi_items()
        if name.startswith("metadata[") and name.endswith("]")
    }
    if len(labels) > MAX_METADATA:
        raise invalid("metadata", f"expected at most {MAX_METADATA} keys")
    return labels


def _storable(param: str, text: str) -> str:
    if "\0" in text:
        raise invalid(param, "it holds U+0000")
    return text
