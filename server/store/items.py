"""Items as they are kept."""

from dataclasses import dataclass
from typing import Any

from harmony.messages import Message

Item = dict[str, Any]

SampledMessages = tuple[Message, ...]
"""What the model said in a turn up to a call, and the call itself, in order."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as the API shows it, with an `id`, and the message behind it where the model spoke.

    The message holds what the item may not show: hidden reasoning, and the sampled token ids,
    so that the next prompt repeats them. Items are shared: never change one.
    """

    item: Item
    message: Message | None = None
