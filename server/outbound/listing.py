"""Lists: pages as the API's cursors want them, and items in the API's full form."""

from collections.abc import Sequence
from typing import Any

from server.schemas.paging import Paging


def whole_page(data: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """A page of what was found; each has an `id`."""
    return {
        "object": "list",
        "data": list(data),
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def page(entries: Sequence[dict[str, Any]], paging: Paging) -> dict[str, Any]:
    """The part of `entries` (the oldest first) that is asked for; each has an `id`.

    After an id that is not there, nothing comes. After one that several entries have, what follows
    the last of them: a client that asks for page after page comes to an end.
    """
    ordered = list(entries) if paging.order == "asc" else list(entries)[::-1]
    if paging.after is not None:
        places = [index for index, entry in enumerate(ordered) if entry["id"] == paging.after]
        ordered = ordered[places[-1] + 1 :] if places else []
    data = ordered[: paging.limit]
    return whole_page(data, has_more=len(ordered) > len(data))


def full(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a request with what clients may leave out, as the SDK's types require it."""
    content = item.get("content")
    if item["type"] == "message" and isinstance(content, str):
        return {"status": "completed", **item, "content": [_text(content, item["role"])]}
    return {"status": "completed", **item}


def _text(text: str, role: str) -> dict[str, Any]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}
