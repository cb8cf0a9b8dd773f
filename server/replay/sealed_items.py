"""Reasoning and summaries that come back sealed, as what the model said."""

from collections.abc import Callable, Iterable

from harmony.messages import Message
from server.schemas.fields import string
from server.store.responses.base import Item, StoredItem

INCLUDE = "reasoning.encrypted_content"

Unseal = Callable[[str, str], Message]
"""A seal and the field that holds it -> what was sealed. Raises InvalidRequest for all else."""


def unsealed(items: Iterable[Item], unseal: Unseal, param: str = "input") -> dict[str, StoredItem]:
    """What stands behind the items that hold a seal, by their ids."""
    found: dict[str, StoredItem] = {}
    for index, item in enumerate(items):
        where = f"{param}.{index}.encrypted_content"
        sealed = item.get("encrypted_content")
        if item["type"] == "compaction" or (item["type"] == "reasoning" and sealed is not None):
            found[item["id"]] = StoredItem(item, unseal(string(sealed, where), where))
    return found
