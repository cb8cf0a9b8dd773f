"""The stored form of items."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harmony.messages import Message

Item = dict[str, Any]

ToolState = Mapping[str, Mapping[str, Any]]
"""The state of hosted tools after an answer, by the tool's name; JSON."""

SampledMessages = tuple[Message, ...]
"""The messages of a turn up to and including a call: those that the model sampled, and the results
of the calls that the server ran."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as the API shows it, with an `id`, and the sampled message that it was made from.

    The message contains what the item may omit: hidden reasoning, and the sampled token ids, which
    the next prompt repeats. message: None for items of the client. result: the message with the
    result of a hosted tool's call, None for other items. Items are shared and must not be changed.
    """

    item: Item
    message: Message | None = None
    result: Message | None = None
