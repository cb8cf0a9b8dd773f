"""The lists of stored conversations and responses, with a preview of each."""

from typing import Any

from server.outbound.listing import list_object
from server.store.items import Item
from server.store.lists import ListPage

PREVIEW_FIELD = "gpt_oss:preview"
MAX_PREVIEW = 120
"""Characters of a preview."""

LISTED_FIELDS = (
    "id",
    "object",
    "created_at",
    "status",
    "background",
    "model",
    "previous_response_id",
    "metadata",
)
"""The fields of a response in a list: those whose size has a limit."""


def listed(page: ListPage, fields: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The list object of a page. fields: those of an entry that it has; None for all."""
    entries = [
        {
            **{name: entry.object.get(name) for name in fields or entry.object},
            PREVIEW_FIELD: preview(entry.first_item),
        }
        for entry in page.entries
    ]
    return list_object(entries, has_more=page.has_more)


def preview(item: Item | None) -> str | None:
    """The beginning of the text of a message, in one line; None for other items."""
    if item is None or item.get("type") != "message":
        return None
    content = item.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content or []
    texts = [text for part in parts if isinstance(text := part.get("text"), str)]
    text = " ".join(" ".join(texts).split())
    return f"{text[: MAX_PREVIEW - 1]}…" if len(text) > MAX_PREVIEW else text or None
