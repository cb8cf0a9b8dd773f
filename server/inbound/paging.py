"""The query of a list: how much of it, in which order, from where on.

Source: https://platform.openai.com/docs/api-reference/chat/list
"""

from typing import Literal

from starlette.datastructures import QueryParams

from server.schemas.fields import digits, invalid
from server.schemas.paging import Paging

DEFAULT_LIMIT = 20
MAX_LIMIT = 100


def read_paging(query: QueryParams, *, order: Literal["asc", "desc"] = "asc") -> Paging:
    """The query's paging; `order` is the list's own. Raises InvalidRequest naming the parameter."""
    limit = digits(query.get("limit", str(DEFAULT_LIMIT)), MAX_LIMIT)
    if not limit:
        raise invalid("limit", f"expected an integer from 1 to {MAX_LIMIT}")
    match query.get("order", order):
        case "asc":
            order = "asc"
        case "desc":
            order = "desc"
        case _:
            raise invalid("order", "expected 'asc' or 'desc'")
    return Paging(limit, order, query.get("after"))


def read_model(query: QueryParams) -> str | None:
    """The query's `model`. Raises InvalidRequest for one that no store can hold."""
    return _kept("model", query["model"]) if "model" in query else None


def read_metadata(query: QueryParams) -> dict[str, str]:
    """The query's `metadata[KEY]=VALUE`. Raises InvalidRequest for what no store can hold."""
    return {
        _kept("metadata", name.removeprefix("metadata[").removesuffix("]")): _kept(name, value)
        for name, value in query.multi_items()
        if name.startswith("metadata[") and name.endswith("]")
    }


def _kept(param: str, text: str) -> str:
    if "\0" in text:
        raise invalid(param, "it holds U+0000")
    return text
