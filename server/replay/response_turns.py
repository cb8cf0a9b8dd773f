"""Replaces a turn that a Responses client sends back with its call by what was sampled.

Clients may send calls and their results without the reasoning before them, and the model would
then continue without its own plan. The server finds the reasoning and the sampled tokens by the
call's id, among the responses of the same owner.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from server.replay import hosted_items
from server.replay.items import (
    CALL_OUTPUTS,
    CALLS,
    has_text,
    is_user,
    item_text,
    same_header,
    unchanged,
)
from server.store.items import Item, StoredItem

TurnsUpToCalls = Mapping[str, Sequence[StoredItem]]
"""The output items after the call before, up to and including each call, by the call's id."""

_Text = tuple[str, str | None, str | None]
"""The type, the role and the text of an item."""

_Located = tuple[StoredItem, str]
"""An item of a request, and the path of its field."""


def call_ids(items: Iterable[Item]) -> list[str]:
    """The ids of the calls among a request's items."""
    return [item["call_id"] for item in items if _is_call(item)]


def restore_turns(
    received: Sequence[StoredItem],
    turns_up_to_calls: TurnsUpToCalls,
    history: Sequence[StoredItem] = (),
) -> tuple[StoredItem, ...]:
    """A request's input, in which turns with an unchanged call are as they were sampled.

    In such a turn each unchanged item gets its sampled message, so that the prompt repeats its
    tokens. Reasoning is inserted where the client sent none, and so are the calls of hosted tools.
    Items that the client changed or added stay where they are. history: the items that the request
    continues. An item that is there, or in the request, is not inserted, and none is inserted
    twice: a client may send a call more than once. Where the history ends with a call that waits
    for its result, what it has from the last user's message on is left out: some clients send that
    again before the result, or a part of it. A text after a new result is a new one.

    Raises InvalidRequest whose `param` names a received item's field.
    """
    present = {stored.item["id"] for stored in (*history, *received)}
    open_turn = _open_turn(history, received)
    only_results = True  # so far; a turn after anything else does not continue the history
    result: list[StoredItem] = []
    turn: list[_Located] = []
    for index, stored in enumerate(received):
        item = stored.item
        turn.append((stored, f"input.{index}"))
        if _is_output(item) and not _is_call(item):
            continue
        sampled = turns_up_to_calls.get(item["call_id"], ()) if _is_call(item) else ()
        if sampled and unchanged(item, sampled[-1], f"input.{index}"):
            repeated = only_results and item["call_id"] in open_turn.calls
            # Nothing can be inserted before a call of the history.
            missing = set() if repeated else _dropped([each for each, _ in turn], sampled)
            dropped = missing - present
            present |= dropped
            added = [*_merge_turn(turn, sampled, dropped, repeated=repeated)]
        else:
            added = [
                each
                for each, where in turn
                if not (only_results and open_turn.has(each.item, where))
            ]
        only_results = only_results and all(each.item["type"] in CALL_OUTPUTS for each in added)
        if added:
            open_turn = replace(open_turn, texts=())
        result += added
        turn = []
    return (*result, *(each for each, _ in turn))


@dataclass(frozen=True, slots=True)
class _OpenTurn:
    """What the history has from the user's last messages on.

    calls: the ids of the calls. results: those so far, by the call's id. texts: what identifies a
    message or reasoning.
    """

    calls: Collection[str] = ()
    results: Mapping[str, Item] = field(default_factory=dict)
    texts: Collection[_Text] = ()

    def has(self, item: Item, where: str) -> bool:
        """Whether it is a result, a message or reasoning of this turn.

        Raises InvalidRequest whose `param` is under `where`.
        """
        if _is_result(item):
            one = self.results.get(item["call_id"])
            return one is not None and one.get("output") == item.get("output")
        return bool(self.texts) and _is_text(item) and _text(item, where) in self.texts


def _open_turn(history: Sequence[StoredItem], received: Sequence[StoredItem]) -> _OpenTurn:
    """The turn that the history ends with; an empty one unless a call of it waits for its result.

    The user's messages are part of it only if the result is received: a user whose call was given
    up may ask the same again.
    """
    backwards = [each.item for each in reversed(history)]
    items = [*takewhile(lambda item: _is_output(item) or _is_result(item), backwards)]
    calls = {*call_ids(items)}
    results = {item["call_id"]: item for item in items if _is_result(item)}
    waiting = calls - results.keys()
    if not waiting:
        return _OpenTurn()
    if any(_is_result(each.item) and each.item["call_id"] in waiting for each in received):
        items += takewhile(is_user, backwards[len(items) :])
    texts = {_text(item, "history") for item in items if _is_text(item)}
    return _OpenTurn(calls, results, texts)


def _text(item: Item, where: str) -> _Text:
    return item["type"], item.get("role"), item_text(item, where)


def _is_text(item: Item) -> bool:
    """Whether it is a message of the user or the assistant, or reasoning."""
    return is_user(item) or (
        _is_output(item) and item["type"] not in (*CALLS, *hosted_items.OUTPUT)
    )


def _is_result(item: Item) -> bool:
    return item["type"] in CALL_OUTPUTS and isinstance(item.get("call_id"), str)


def _dropped(turn: Sequence[StoredItem], sampled: Sequence[StoredItem]) -> set[str]:
    """The ids of sampled items of the kinds of which the client sent none."""
    inserted = {kind for kind in (_is_reasoning, _is_hosted) if not any(map(kind, turn))}
    return {each.item["id"] for each in sampled if any(kind(each) for kind in inserted)}


def _merge_turn(
    turn: Sequence[_Located],
    sampled: Sequence[StoredItem],
    dropped: Collection[str],
    *,
    repeated: bool,
) -> Iterator[StoredItem]:
    """The received items, with their sampled messages where they are unchanged.

    sampled: the turn up to its call. dropped: ids of sampled items that are inserted. repeated:
    whether the history has the turn, so that only items that the client changed or added are left.
    """
    position = 0
    for stored, where in turn:
        match = _find_match(stored.item, where, sampled, position)
        until = _end_of_reasoning(sampled, position) if match is None else match
        for skipped in sampled[position:until]:
            if skipped.item["id"] in dropped:
                yield skipped
        if match is None:
            position = until
            yield stored
            continue
        position = match + 1
        if not repeated:
            yield StoredItem(stored.item, sampled[match].message, sampled[match].result)


def _find_match(item: Item, where: str, sampled: Sequence[StoredItem], start: int) -> int | None:
    """The index of the first equal item in `sampled`, from `start`; None where there is none.

    The item is read once, not once for each candidate: requests may hold a hundred thousand items.
    """
    text = item_text(item, where)
    candidates = range(start, len(sampled))
    return next(
        (at for at in candidates if same_header(item, sampled[at]) and has_text(sampled[at], text)),
        None,
    )


def _end_of_reasoning(sampled: Sequence[StoredItem], start: int) -> int:
    """The index of the first item from `start` that is no reasoning and of no hosted tool."""
    while sampled[start].item["type"] in ("reasoning", *hosted_items.OUTPUT):
        start += 1
    return start


def _is_reasoning(stored: StoredItem) -> bool:
    """Whether it is reasoning with text; clients may send the item without its text."""
    item = stored.item
    return item["type"] == "reasoning" and bool(stored.message or item.get("content"))


def _is_hosted(stored: StoredItem) -> bool:
    return stored.item["type"] in hosted_items.OUTPUT


def _is_call(item: Item) -> bool:
    return item["type"] in CALLS and isinstance(item.get("call_id"), str)


def _is_output(item: Item) -> bool:
    """Whether the model makes items of this kind, so that it belongs to an assistant's turn."""
    if item["type"] == "message":
        return bool(item.get("role") == "assistant")
    return item["type"] in ("reasoning", *CALLS, *hosted_items.OUTPUT)
