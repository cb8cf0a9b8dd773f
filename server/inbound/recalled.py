"""Reasoning that a client dropped: put back where the calls come back that it led to.

A client that sends calls and their results without the reasoning before them would have the model
go on without its own plan. The server finds both by the call's id, in its owner's responses alone.
"""

from collections.abc import Iterable, Mapping, Sequence

from server.inbound.items import CALLS
from server.store.base import Item, StoredItem

LedTo = Mapping[str, Sequence[StoredItem]]
"""What the model said up to each call and the call itself, by the call's id."""


def call_ids(items: Iterable[Item]) -> list[str]:
    """The calls among a request's items."""
    return [item["call_id"] for item in items if _is_call(item)]


def with_reasoning(given: Sequence[StoredItem], led_to: LedTo) -> tuple[StoredItem, ...]:
    """The items, with the reasoning that is missing before calls that came back unchanged.

    Such a call also gets its own message, so that its sampled tokens are repeated.
    """
    present = {stored.item["id"] for stored in given}
    result: list[StoredItem] = []
    said_since = 0
    thought = False
    for stored in given:
        item = stored.item
        thought = thought or item["type"] == "reasoning"
        said = led_to.get(item["call_id"], ()) if _is_call(item) else ()
        if said and _same_call(item, said[-1].item):
            if not thought:
                missing = [
                    each for each in _thoughts_before(said) if each.item["id"] not in present
                ]
                result[said_since:said_since] = missing
            stored = StoredItem(item, said[-1].message)
        result.append(stored)
        if not _is_said(item) or _is_call(item):
            said_since, thought = len(result), False
    return tuple(result)


def _thoughts_before(said: Sequence[StoredItem]) -> list[StoredItem]:
    """Since the call before this one."""
    thoughts: list[StoredItem] = []
    for stored in said[:-1]:
        if _is_call(stored.item):
            thoughts = []
        elif stored.item["type"] == "reasoning":
            thoughts.append(stored)
    return thoughts


def _is_call(item: Item) -> bool:
    return item["type"] in CALLS and isinstance(item.get("call_id"), str)


def _is_said(item: Item) -> bool:
    """Whether an assistant's turn goes on with it."""
    return item["type"] in ("reasoning", *CALLS) or item.get("role") == "assistant"


def _same_call(item: Item, said: Item) -> bool:
    fields = ("type", "name", "namespace", CALLS[item["type"]])
    return all(item.get(name) == said.get(name) for name in fields)
