"""Pages of lists of conversations and responses: the query, and the entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from server.ids import place_after
from server.store.items import Item

MAX_FIRST_ITEM = 16_384
"""Characters of JSON of a first item that a list has. A larger one, with an image for instance,
would make lists slow."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Selects a page.

    limit: the most entries, >= 1. order: by time of creation. after: the id of the entry before
    the page; None for the first page.
    """

    limit: int
    order: Literal["asc", "desc"]
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry. object: the API's object. first_item: the first item of the conversation, or of the
    response's input; None if there is none, or if it is large."""

    object: dict[str, Any]
    first_item: Item | None


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of entries, and whether more follow it."""

    entries: Sequence[ListEntry]
    has_more: bool


def page_of(entries: Sequence[tuple[float, ListEntry]], query: ListQuery) -> ListPage:
    """The page of a list in memory. `query.after` may be deleted: see `place_after`.

    entries: each with its time of creation, which may be equal for several.
    """
    ordered = sorted(
        entries,
        key=lambda each: (each[0], each[1].object["id"]),
        reverse=query.order == "desc",
    )
    found = [entry for _, entry in ordered]
    if query.after is not None:
        ids = [entry.object["id"] for entry in found]
        found = found[place_after(ids, query.after, query.order) :]
    return ListPage(found[: query.limit], len(found) > query.limit)
