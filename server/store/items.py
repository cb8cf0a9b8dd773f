"""The stored form of items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harmony.messages import Message

Item = dict[str, Any]

ToolState = Mapping[str, Mapping[str, Any]]
"""The state of hosted tools after an answer, by the tool's name; JSON."""

NO_STATE: ToolState = {}

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


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """The messages of an answer that calls tools of the client, stored once for all of its calls.

    messages: those up to the last call. ends: by the id of each call, in their order, how many of
    the messages there are up to and including it; at least one call.
    """

    messages: SampledMessages
    ends: Mapping[str, int]

    def up_to(self, call_id: str) -> SampledMessages:
        """Return the messages up to and including one of the calls."""
        return self.messages[: self.ends[call_id]]


class UpToCalls(Mapping[str, SampledMessages]):
    """The messages up to and including each of some calls, by the call's id.

    They are copied when they are read: copies for all calls of a turn would take the square of
    their number. turns: the turn of each call.
    """

    def __init__(self, turns: Mapping[str, SampledTurn]) -> None:
        self._turns = turns

    def __getitem__(self, call_id: str) -> SampledMessages:
        return self._turns[call_id].up_to(call_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def __len__(self) -> int:
        return len(self._turns)

    def __or__(self, other: "UpToCalls") -> "UpToCalls":
        """Those of both; where both have a call, those of `other`."""
        return UpToCalls({**self._turns, **other._turns})


def turns_up_to_calls(output: Sequence[StoredItem]) -> Iterator[tuple[str, Sequence[StoredItem]]]:
    """The id of each call in a response's output, and the items after the call before it.

    The call is the last of these items. An item belongs to one turn at most, so that an output with
    many calls takes no more than one with a few.
    """
    start = 0
    for end, stored in enumerate(output, 1):
        if isinstance(call_id := stored.item.get("call_id"), str):
            yield call_id, output[start:end]
            start = end
