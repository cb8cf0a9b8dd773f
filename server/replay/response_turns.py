"""A turn that comes back with its call, as the model said it: sampled tokens, dropped reasoning.

A client that sends calls and their results without the reasoning before them would have the model
go on without its own plan. The server finds both by the call's id, in its owner's responses alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from server.replay.items import CALLS, alike, says, text_in, unchanged
from server.store.responses.base import Item, StoredItem

OutputUpToCall = Mapping[str, Sequence[StoredItem]]
"""What the model said up to each call and the call itself, by the call's id."""

_Given = tuple[StoredItem, str]
"""An item of a request, and where it stands there."""


def call_ids(items: Iterable[Item]) -> list[str]:
    """The calls among a request's items."""
    return [item["call_id"] for item in items if _is_call(item)]


def as_said(
    given: Sequence[StoredItem], output_up_to_call: OutputUpToCall
) -> tuple[StoredItem, ...]:
    """A request's input, with turns whose call came back unchanged as the model said them.

    In such a turn what came back unchanged gets the message behind it, so that its sampled tokens
    are repeated, and reasoning is put back where none came back. What the client changed or added
    stays in its place. Raises InvalidRequest whose `param` names a given item's field.
    """
    present = {stored.item["id"] for stored in given}
    result: list[StoredItem] = []
    turn: list[_Given] = []
    for index, stored in enumerate(given):
        item = stored.item
        turn.append((stored, f"input.{index}"))
        if _is_said(item) and not _is_call(item):
            continue
        said = (
            _since_last_call(output_up_to_call.get(item["call_id"], ())) if _is_call(item) else ()
        )
        if said and unchanged(item, said[-1], f"input.{index}"):
            thought = any(_is_thought(each) for each, _ in turn)
            dropped = set() if thought else {each.item["id"] for each in said} - present
            result += _repeated(turn, said, dropped)
        else:
            result += (each for each, _ in turn)
        turn = []
    return (*result, *(each for each, _ in turn))


def _repeated(
    turn: Sequence[_Given], said: Sequence[StoredItem], dropped: Collection[str]
) -> Iterator[StoredItem]:
    """What is given of a turn, in place of it what was said, where that is the same.

    said: the turn up to its call. dropped: the reasoning of it, by id, that is to be put back.
    """
    heard = 0
    for stored, where in turn:
        place = _place(stored.item, where, said, heard)
        until = _end_of_thoughts(said, heard) if place is None else place
        thoughts = (each for each in said[heard:until] if each.item["type"] == "reasoning")
        yield from (each for each in thoughts if each.item["id"] in dropped)
        if place is None:
            heard = until
            yield stored
        else:
            heard = place + 1
            yield StoredItem(stored.item, said[place].message)


def _place(item: Item, where: str, said: Sequence[StoredItem], start: int) -> int | None:
    """Where an item stands in what was said, from `start` on; None where it is not the same.

    The item is read once, however much was said: requests may hold a hundred thousand of them.
    """
    text = text_in(item, where)
    places = range(start, len(said))
    return next((at for at in places if alike(item, said[at]) and says(said[at], text)), None)


def _end_of_thoughts(said: Sequence[StoredItem], start: int) -> int:
    """The position after the reasoning that stands at `start`."""
    while said[start].item["type"] == "reasoning":
        start += 1
    return start


def _since_last_call(said: Sequence[StoredItem]) -> Sequence[StoredItem]:
    """The call that `said` ends in, and what led to it from the call before on."""
    starts = range(len(said) - 1, 0, -1)
    return said[next((start for start in starts if _is_call(said[start - 1].item)), 0) :]


def _is_thought(stored: StoredItem) -> bool:
    """Whether it is reasoning that tells something; an item may come back without its text."""
    item = stored.item
    return item["type"] == "reasoning" and bool(stored.message or item.get("content"))


def _is_call(item: Item) -> bool:
    return item["type"] in CALLS and isinstance(item.get("call_id"), str)


def _is_said(item: Item) -> bool:
    """Whether an assistant's turn goes on with it."""
    if item["type"] == "message":
        return bool(item.get("role") == "assistant")
    return item["type"] in ("reasoning", *CALLS)
