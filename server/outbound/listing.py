"""The API's list objects and their pages, and items with all required fields."""

from collections.abc import Mapping, Sequence
from typing import Any

from server.ids import place_after
from server.schemas.paging import Paging

_REQUIRED: Mapping[str, dict[str, Any]] = {
    "input_image": {"detail": "auto"},
    "output_text": {"annotations": [], "logprobs": []},
}
"""By the type of a part of a content: the fields that the SDK's types require."""


def list_object(data: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """The API's list object. data: the entries of this page; each has an `id`."""
    return {
        "object": "list",
        "data": list(data),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def paginate(entries: Sequence[dict[str, Any]], paging: Paging) -> dict[str, Any]:
    """The list object with the entries that `paging` selects.

    If several entries have the cursor's id (`after`), the page begins after the last of them, so
    that a client that requests page after page reaches the end. If none has it, the page begins
    where a deleted entry with this id was, and is empty for other ids.

    entries: all entries, the oldest first; each has an `id`.
    paging: order, cursor and limit.
    """
    ordered = list(entries) if paging.order == "asc" else list(entries)[::-1]
    if paging.after is not None:
        ids = [entry["id"] for entry in ordered]
        ordered = ordered[place_after(ids, paging.after, paging.order) :]
    data = ordered[: paging.limit]
    return list_object(data, has_more=len(ordered) > len(data))


def complete_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a request with the fields that clients may omit and the SDK's types require."""
    completed = {"status": "completed", **item}
    if item["type"] == "message":
        content = item["content"]
        if isinstance(content, str):
            kind = "output_text" if item["role"] == "assistant" else "input_text"
            content = [{"type": kind, "text": content}]
        completed["content"] = [_REQUIRED.get(part["type"], {}) | part for part in content]
    return completed
