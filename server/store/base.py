"""What is kept between requests, and the seam to where it is kept."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harmony.messages import Message

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as the API shows it, with an `id`, and the message behind it where the model spoke.

    The message holds what the item may not show: hidden reasoning, and the sampled token ids,
    so that the next prompt repeats them. Items are shared: never change one.
    """

    item: Item
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response that has ended, and all that continuing it takes.

    owner: the principal's id. response: the API's object, output included. start_date: what the
    system message names, `YYYY-MM-DD`. history: items of the turns before; input and output: of
    this one.
    """

    owner: str
    response: dict[str, Any]
    start_date: str
    history: tuple[StoredItem, ...]
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]

    @property
    def id(self) -> str:
        """The response's own id."""
        return str(self.response["id"])

    @property
    def items(self) -> tuple[StoredItem, ...]:
        """What a response that continues this one has as its history."""
        return (*self.history, *self.input, *self.output)


class Store(Protocol):
    """Keeps responses for their owners (principals' ids); nobody else's request finds them."""

    async def put(self, stored: StoredResponse) -> None:
        """Keep a response, in place of one with the same id."""
        ...

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """The owner's response; None where there is none."""
        ...

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget the owner's response; False where there is none."""
        ...

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """Those of the owner's input and output items that have one of `ids`, by id."""
        ...
