"""Where in a response an event belongs."""

from typing_extensions import TypedDict

from server.schemas.descriptions import described


@described
class Numbered(TypedDict):
    """What all events have."""

    sequence_number: int
    """The event's place in the stream, from 0 on."""


@described
class InItem(Numbered):
    """Where in the output an event belongs."""

    item_id: str
    output_index: int


@described
class InPart(InItem):
    """Where in an item an event belongs."""

    content_index: int
