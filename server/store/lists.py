"""Pages of lists: the query, and the entries of those of conversations and responses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, takewhile
from typing import Any, Generic, Literal, TypeVar

from server import threads
from server.ids import place_after
from server.store import codec
from server.store.items import Item, StoredItem

T = TypeVar("T")

MAX_FIRST_ITEM = 16_384
"""Characters of JSON of a first item that a list has. A larger one, with an image for instance,
would make lists slow."""

MOST_PAGE_BYTES = 8 * 1024 * 1024
"""Bytes that the entries of a page take in the store, unless it is a single one.

A database keeps their JSON; in memory they take some ten times as much.
"""


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
class Page(Generic[T]):
    """A page of any entries, and whether more follow it."""

    entries: Sequence[T]
    has_more: bool


ListPage = Page[ListEntry]


def fitting(page: Page[T], size_of: Callable[[T], int]) -> Page[T]:
    """The page up to the entry that it has no room for. Its first entry stays, however large."""
    totals = accumulate(map(size_of, page.entries))
    next(totals, None)
    count = 1 + sum(1 for _ in takewhile(lambda total: total <= MOST_PAGE_BYTES, totals))
    return Page(page.entries[:count], page.has_more or count < len(page.entries))


def page_in_memory(
    entries: Sequence[T],
    query: ListQuery,
    id_of: Callable[[T], str],
    keep: Callable[[T], bool] = lambda _: True,
    *,
    mixed: bool = False,
) -> Page[T]:
    """The page of those entries in memory that `keep` accepts. entries: the oldest first.

    If several entries have the cursor's id (`query.after`), the page begins after the last of them,
    so that a client that requests page after page reaches the end. If none has it, the page begins
    where a deleted entry with this id was, and is empty for other ids. `keep` may refuse the entry
    that has the cursor's id. mixed: whether the entries are of several kinds.
    """
    ordered = entries if query.order == "asc" else entries[::-1]
    start = 0
    if query.after is not None:
        ids = [id_of(each) for each in ordered]
        start = place_after(ids, query.after, query.order, mixed=mixed)
    found = [*islice(filter(keep, ordered[start:]), query.limit + 1)]
    return Page(found[: query.limit], len(found) > query.limit)


def page_of_items(
    stored: Sequence[StoredItem], query: ListQuery, size_of: Callable[[StoredItem], int]
) -> Page[Item]:
    """The page of items in memory: see `page_in_memory` and `fitting`."""
    found = page_in_memory(stored, query, lambda each: str(each.item["id"]), mixed=True)
    page = fitting(found, size_of)
    return Page([each.item for each in page.entries], page.has_more)


async def page_of(entries: Sequence[tuple[float, ListEntry]], query: ListQuery) -> ListPage:
    """The page of a list in memory. `query.after` may be deleted: see `place_after`.

    entries: each with its time of creation, which may be equal for several. Their first items may
    be large; those of the page are not.
    """
    ordered = sorted(entries, key=lambda each: (each[0], each[1].object["id"]))
    page = page_in_memory([entry for _, entry in ordered], query, lambda each: each.object["id"])
    size = threads.size_of([entry.first_item for entry in page.entries])

    def shown() -> list[ListEntry]:
        return [_without_large_item(entry) for entry in page.entries]

    return replace(page, entries=await threads.run(shown, size))


def _without_large_item(entry: ListEntry) -> ListEntry:
    """The entry as a database has it, which measures the text of the first item."""
    if entry.first_item is None or len(codec.dump(entry.first_item)) <= MAX_FIRST_ITEM:
        return entry
    return replace(entry, first_item=None)
