"""Reasoning and compaction items that come back with encrypted content."""

from collections.abc import Callable, Iterable

from harmony.messages import Message
from server.schemas.fields import string
from server.store.items import Item, StoredItem

INCLUDE = "reasoning.encrypted_content"

Unseal = Callable[[str, str], Message]
"""Decrypts a seal; the second argument is the path of its field.

Raises InvalidRequest. ContextLengthExceeded is one.
"""


def unseal_items(
    items: Iterable[Item], unseal: Unseal, param: str = "input"
) -> dict[str, StoredItem]:
    """The items that hold a seal, with the messages in these, by item id.

    Raises InvalidRequest naming the field of a seal that cannot be decrypted or holds too much.
    """
    unsealed: dict[str, StoredItem] = {}
    for index, item in enumerate(items):
        where = f"{param}.{index}.encrypted_content"
        seal = item.get("encrypted_content")
        if item["type"] == "compaction" or (item["type"] == "reasoning" and seal is not None):
            unsealed[item["id"]] = StoredItem(item, unseal(string(seal, where), where))
    return unsealed
