"""The API's list objects and their pages, and items with all required fields."""

from collections.abc import Mapping, Sequence
from typing import Any

from server.store.lists import ListQuery, page_in_memory

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


def paginate(entries: Sequence[dict[str, Any]], query: ListQuery) -> dict[str, Any]:
    """The list object with the entries that `query` selects: see `page_in_memory`.

    entries: all entries, the oldest first; each has an `id`.
    """
    page = page_in_memory(entries, query, lambda entry: str(entry["id"]))
    return list_object(page.entries, has_more=page.has_more)


def complete_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a request with the fields that clients may omit and the SDK's types require."""
    completed = {"status": "completed", **item}
    match item["type"]:
        case "message":
            kind = "output_text" if item["role"] == "assistant" else "input_text"
            parts = _parts(item["content"], kind)
            completed["content"] = [_REQUIRED.get(part["type"], {}) | part for part in parts]
        case "reasoning":
            completed["summary"] = _parts(item.get("summary"), "summary_text")
            completed["content"] = _parts(item.get("content"), "reasoning_text")
    return completed


def _parts(content: Any, kind: str) -> list[dict[str, Any]]:
    """The parts of a content. Nothing checks a `summary`, so it has values of any type."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
