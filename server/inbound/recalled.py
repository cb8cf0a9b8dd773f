"""Reasoning that a client dropped: put back where the calls come back that it led to.

A client that sends calls and their results without the reasoning before them would have the model
go on without its own plan. The server finds both by the call's id, in its owner's responses alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from server.inbound.items import CALLS, unchanged
from server.store.base import Item, StoredItem

LedTo = Mapping[str, Sequence[StoredItem]]
"""What the model said up to each call and the call itself, by the call's id."""

_Given = tuple[StoredItem, str]
"""An item of a request, and where it stands there."""


def call_ids(items: Iterable[Item]) -> list[str]:
    """The calls among a request's items."""
    return [item["call_id"] for item in items if _is_call(item)]


def with_reasoning(
    given: Sequence[StoredItem], led_to: LedTo, param: str = "input"
) -> tuple[StoredItem, ...]:
    """The items, with the reasoning that is missing before calls that came back unchanged.

    What else came back unchanged of what led to such a call gets its own message, as the call does,
    so that its sampled tokens are repeated. `param` is the field that holds the items.
    """
    present = {stored.item["id"] for stored in given}
    result: list[StoredItem] = []
    turn: list[_Given] = []
    for index, stored in enumerate(given):
        item = stored.item
        turn.append((stored, f"{param}.{index}"))
        if _is_said(item) and not _is_call(item):
            continue
        said = _since_last_call(led_to.get(item["call_id"], ())) if _is_call(item) else []
        if said and _same_call(item, said[-1].item):
            thought = any(_is_thought(each) for each, _ in turn)
            dropped = set() if thought else {each.item["id"] for each in said} - present
            result += _as_said(turn, said, dropped)
        else:
            result += (each for each, _ in turn)
        turn = []
    return (*result, *(each for each, _ in turn))


def _as_said(
    turn: Sequence[_Given], said: Sequence[StoredItem], dropped: Collection[str]
) -> Iterator[StoredItem]:
    """What is given of a turn, in place of it what was said, where that is the same.

    said: the turn up to its call. dropped: the reasoning of it, by id, that is to be put back.
    """
    heard = 0
    for stored, where in turn:
        place = next(
            (at for at in range(heard, len(said)) if unchanged(stored.item, said[at], where)), None
        )
        until = _end_of_thoughts(said, heard) if place is None else place
        thoughts = (each for each in said[heard:until] if each.item["type"] == "reasoning")
        yield from (each for each in thoughts if each.item["id"] in dropped)
        if place is None:
            heard = until
            yield stored
        else:
            heard = place + 1
            yield StoredItem(stored.item, said[place].message)


def _end_of_thoughts(said: Sequence[StoredItem], start: int) -> int:
    """The position after the reasoning that stands at `start`."""
    while said[start].item["type"] == "reasoning":
        start += 1
    return start


def _since_last_call(said: Sequence[StoredItem]) -> list[StoredItem]:
    """The call that `said` ends in, and what led to it from the call before on."""
    calls = [place for place, stored in enumerate(said[:-1]) if _is_call(stored.item)]
    return list(said[calls[-1] + 1 if calls else 0 :])


def _is_thought(stored: StoredItem) -> bool:
    """Whether it is reasoning that tells something; an item may come back without its text."""
    item = stored.item
    return item["type"] == "reasoning" and bool(stored.message or item.get("content"))


def _is_call(item: Item) -> bool:
    return item["type"] in CALLS and isinstance(item.get("call_id"), str)


def _is_said(item: Item) -> bool:
    """Whether an assistant's turn goes on with it."""
    return item["type"] in ("reasoning", *CALLS) or item.get("role") == "assistant"


def _same_call(item: Item, said: Item) -> bool:
    fields = ("type", "name", "namespace", CALLS[item["type"]])
    return all(item.get(name) == said.get(name) for name in fields)
