"""What every store does, in memory and in databases alike."""

import asyncio
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from server.store import lists
from server.store.conversations.base import Conversation
from server.store.errors import RunLost
from server.store.items import StoredItem
from server.store.lists import ListQuery
from server.store.responses.base import CANCELS, Event, Ledger, Store, StoredResponse
from tests.stored import put

THOUGHT = Message(Author(Role.ASSISTANT), "Hm.", Channel.ANALYSIS, tokens=(200006, 0, 199998))
CALL = Message(
    Author(Role.ASSISTANT), "{}", Channel.COMMENTARY, "functions.f", "json", tokens=(1, 2)
)


def item(name: str, message: Message | None = None, **fields: Any) -> StoredItem:
    return StoredItem({"id": name, "type": "message", **fields}, message)


def turn(
    name: str,
    *,
    owner: str = "a",
    previous: StoredResponse | None = None,
    input_items: tuple[StoredItem, ...] | None = None,
    made: tuple[StoredItem, ...] | None = None,
    detached: bool = False,
    **fields: Any,
) -> StoredResponse:
    """A response `name` with one input item and one that the model made."""
    input_items = (item(f"in_{name}"),) if input_items is None else input_items
    made = (item(f"out_{name}", THOUGHT),) if made is None else made
    response = {
        "id": name,
        "previous_response_id": previous and previous.id,
        **fields,
        "output": [stored.item for stored in made],
    }
    history = previous.items if previous else ()
    return StoredResponse(
        owner, response, "2026-01-31", history, input_items, made, detached=detached
    )


def running(name: str, **fields: Any) -> StoredResponse:
    return turn(name, made=(), status="in_progress", **fields)


def numbered(*numbers: int) -> list[Event]:
    return [{"type": "x", "sequence_number": number, "delta": "é\u0000"} for number in numbers]


async def first_of(store: Store, conversation_id: str, **fields: Any) -> StoredResponse:
    """A response `one` that has read all items of the conversation."""
    read = await store.conversations.read("a", conversation_id)
    assert read is not None
    one = turn("one", status="completed", conversation={"id": conversation_id}, **fields)
    return replace(one, history=read.items, read_position=read.position)


async def followed(store: Store, name: str) -> list[Event]:
    """The events of a response until its end, read as they are stored."""
    events: list[Event] = []
    with store.listen(name) as changes:
        while True:
            ledger = await store.ledger("a", name, len(events))
            assert ledger is not None
            events += ledger.events
            if ledger.ended:
                return events
            await changes.wait()


async def test_what_is_put_is_got(store: Store) -> None:
    one = turn(
        "one", metadata={"naïve": "\u0000"}, input_items=(item("in", content=[{"a": None}]),)
    )
    await put(store, one)
    assert await store.get("a", "one") == one
    assert await store.show("a", "one") == one.response
    assert await store.items("a", ["out_one", "out_two"]) == {"out_one": one.output[0]}


async def test_a_detached_response_is_stored_without_its_history(
    store: Store,
) -> None:
    two = running("two", previous=turn("one"), detached=True)
    await store.begin(two)
    await store.end(turn("two", previous=turn("one"), detached=True), numbered(0))
    stored = await store.get("a", "two")
    assert stored == replace(turn("two", previous=turn("one"), detached=True), history=())
    assert await store.items("a", ["in_one", "out_one"]) == {}


@pytest.mark.parametrize("message", [THOUGHT, CALL, replace(CALL, tokens=None), None])
async def test_the_models_message_is_stored_with_its_item(
    store: Store, message: Message | None
) -> None:
    await put(store, turn("one", made=(item("out", message),)))
    assert (await store.items("a", ["out"]))["out"].message == message


async def test_another_owner_finds_nothing(store: Store) -> None:
    one = turn("one")
    await put(store, one, numbered(0))
    assert await store.get("b", "one") is None
    assert await store.show("b", "one") is None
    assert await store.ledger("b", "one") is None
    assert await store.items("b", ["in_one", "out_one"]) == {}
    assert not await store.delete("b", "one")
    assert await store.get("a", "one") == one


@pytest.mark.parametrize("name", ["", "\x00", "é", "x" * 5000, "\ud800"])
async def test_odd_ids_are_ids_like_others(store: Store, name: str) -> None:
    assert await store.get("a", name) is None
    assert not await store.delete("a", name)
    await store.cancel(name)
    if name != "\ud800":
        await put(store, turn("one", input_items=(item(name, call_id=name),)))
        assert list(await store.items("a", [name])) == [name]


async def test_what_is_deleted_is_gone_with_its_items_and_events(store: Store) -> None:
    await put(store, turn("one"), numbered(0))
    assert await store.delete("a", "one")
    assert await store.get("a", "one") is None
    assert await store.show("a", "one") is None
    assert await store.ledger("a", "one") is None
    assert await store.items("a", ["in_one", "out_one"]) == {}
    assert not await store.delete("a", "one")


async def test_a_chain_knows_all_turns_in_order(store: Store) -> None:
    last = None
    for number in range(5):
        last = turn(f"turn_{number}", previous=last)
        await put(store, last)
    assert last is not None
    assert await store.get("a", "turn_4") == last
    assert [stored.item["id"] for stored in last.items[:4]] == [
        "in_turn_0",
        "out_turn_0",
        "in_turn_1",
        "out_turn_1",
    ]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_page_of_input_begins_with_the_history(store: Store, order: Any) -> None:
    talk = Conversation("a", "conv_1", 1, "2026-01-31", {})
    long, odd = "x" * 500, "é\n"
    await store.conversations.create(talk, [item("c_0"), item(long)])
    one = await first_of(store, "conv_1")
    await put(store, one)
    two = turn("two", previous=one, input_items=(item("in_0"), item(odd), item("in_2")))
    await put(store, two)
    names = ["c_0", long, "in_one", "out_one", "in_0", odd, "in_2"]
    if order == "desc":
        names.reverse()
    for start in range(len(names)):
        after = names[start - 1] if start else None
        page = await store.input_items("a", "two", ListQuery(2, order, after))
        assert page is not None
        assert [each["id"] for each in page.entries] == names[start : start + 2]
        assert page.has_more is (start + 2 < len(names))
    assert await store.input_items("b", "two", ListQuery(2, order)) is None


async def test_a_history_has_only_what_its_conversation_still_has(store: Store) -> None:
    talks = store.conversations
    await talks.create(Conversation("a", "conv_1", 1, "2026-01-31", {}), [item("x"), item("y")])
    one = await first_of(store, "conv_1")
    await put(store, one)
    await put(store, turn("two", previous=one))

    async def histories() -> tuple[list[str], list[str]]:
        one, two = [await store.get("a", name) for name in ("one", "two")]
        page = await store.input_items("a", "two", ListQuery(9, "asc"))
        assert one is not None
        assert two is not None
        assert page is not None
        names = [each.item["id"] for each in two.history]
        assert [each["id"] for each in page.entries] == [*names, "in_two"]
        return [each.item["id"] for each in one.history], names

    await talks.remove("a", "conv_1", "x")
    await talks.remove("a", "conv_1", "in_one")
    assert await histories() == (["y"], ["y", "in_one", "out_one"])
    continued = await store.get("a", "two")
    assert continued is not None
    await put(store, turn("three", previous=continued))
    await talks.delete("a", "conv_1")
    assert await histories() == ([], ["in_one", "out_one"])
    three = await store.get("a", "three")
    assert three is not None
    names = [each.item["id"] for each in three.history]
    assert names == ["in_one", "out_one", "in_two", "out_two"]


async def test_a_page_of_a_conversation_and_one_item_of_it(store: Store) -> None:
    talks = store.conversations
    await talks.create(Conversation("a", "conv_1", 1, "2026-01-31", {}), [item("x"), item("y")])
    page = await talks.page_of_items("a", "conv_1", ListQuery(1, "desc"))
    assert page is not None
    assert (list(page.entries), page.has_more) == ([item("y").item], True)
    assert await talks.item("a", "conv_1", "x") == item("x").item
    assert await talks.item("a", "conv_1", "lost") is None
    assert await talks.item("b", "conv_1", "x") is None
    assert await talks.page_of_items("b", "conv_1", ListQuery(1, "desc")) is None


async def test_a_page_of_items_ends_before_it_is_large(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MOST_PAGE_BYTES", 3000)
    large = tuple(item(name, text="x" * 2000) for name in "xyz")
    await store.conversations.create(Conversation("a", "conv_1", 1, "2026-01-31", {}), large)
    await put(store, turn("one", input_items=large))
    for after, found, has_more in ((None, "x", True), ("x", "y", True), ("y", "z", False)):
        query = ListQuery(3, "asc", after)
        for page in (
            await store.conversations.page_of_items("a", "conv_1", query),
            await store.input_items("a", "one", query),
        ):
            assert page is not None
            assert ([each["id"] for each in page.entries], page.has_more) == ([found], has_more)


async def test_chains_that_part_keep_to_themselves(store: Store) -> None:
    one = turn("one")
    left, right = turn("left", previous=one), turn("right", previous=one)
    for response in (one, left, right):
        await put(store, response)
    assert await store.get("a", "left") == left
    assert await store.get("a", "right") == right


async def test_who_continues_a_deleted_response_keeps_what_it_knows(store: Store) -> None:
    one = turn("one")
    two = turn("two", previous=one)
    three = turn("three", previous=two)
    for response in (one, two, three):
        await put(store, response)
    await store.delete("a", "one")
    await store.delete("a", "two")
    assert await store.get("a", "three") == three
    assert await store.items("a", ["out_one"]) == {}
    assert await store.delete("a", "three")
    assert await store.get("a", "three") is None


async def test_an_item_that_comes_back_keeps_its_first_form(store: Store) -> None:
    one = turn("one")
    await put(store, one)
    changed = item("out_one", content="other")
    again = item("in_one", content="other")
    await put(store, turn("two", input_items=(changed, again)))
    assert await store.items("a", ["out_one", "in_one"]) == {
        "out_one": one.output[0],
        "in_one": one.input[0],
    }
    await store.delete("a", "two")
    assert (await store.items("a", ["out_one"]))["out_one"] == one.output[0]


async def test_an_item_of_several_responses_stays_until_the_last_is_deleted(store: Store) -> None:
    shared = item("shared", content="first")
    again = item("shared", content="second")
    for name, inputs in (("one", (shared,)), ("two", (shared,)), ("three", (again,))):
        await put(store, turn(name, input_items=inputs))
    await store.delete("a", "one")
    assert await store.items("a", ["shared"]) == {"shared": shared}
    await store.delete("a", "two")
    assert await store.items("a", ["shared"]) == {"shared": again}
    await store.delete("a", "three")
    assert await store.items("a", ["shared"]) == {}


async def test_items_of_conversations_are_found_where_no_response_has_them(store: Store) -> None:
    talks = store.conversations
    first, second = item("x", THOUGHT, content="1"), item("x", content="2")
    added = ((first, item("y")), (second, item("in_one", content="other")))
    for name, items in zip(("conv_1", "conv_2"), added, strict=True):
        await talks.create(Conversation("a", name, 1, "2026-01-31", {}), items)
    one = turn("one")
    await put(store, one)
    ids = ["x", "y", "in_one", "lost"]
    assert await store.items("a", ids) == {"x": first, "y": item("y"), "in_one": one.input[0]}
    assert await store.items("b", ids) == {}
    await talks.remove("a", "conv_1", "y")
    await store.delete("a", "one")
    other = added[1][1]
    assert await store.items("a", ids) == {"x": first, "in_one": other}
    await talks.delete("a", "conv_1")
    assert await store.items("a", ids) == {"x": second, "in_one": other}
    await talks.add("a", "conv_2", [item("z")])
    assert await store.items("a", ["z"]) == {"z": item("z")}


def called(name: str, count: int) -> StoredResponse:
    """A response with `count` calls, and an item before each."""
    calls = (
        (item(f"{name}_{n}", THOUGHT), item(f"{name}_fc_{n}", CALL, call_id=f"{name}_c_{n}"))
        for n in range(count)
    )
    return turn(name, made=tuple(chain.from_iterable(calls)))


async def test_a_call_is_found_with_the_items_after_the_call_before(store: Store) -> None:
    one, two = called("one", 3), called("two", 1)
    await put(store, one)
    await put(store, two)
    ids = ["two_c_0", "one_c_2", "one_c_0", "lost"]
    assert {
        name: tuple(turn) for name, turn in (await store.turns_up_to_calls("a", ids)).items()
    } == {
        "two_c_0": two.output,
        "one_c_0": one.output[:2],
        "one_c_2": one.output[4:],
    }
    assert await store.turns_up_to_calls("b", ids) == {}
    await store.delete("a", "one")
    assert set(await store.turns_up_to_calls("a", ids)) == {"two_c_0"}


async def test_the_turns_of_many_calls_have_each_item_once(store: Store) -> None:
    one = called("one", 200)
    await put(store, one)
    found = await store.turns_up_to_calls("a", [f"one_c_{n}" for n in range(200)])
    assert sum(map(len, found.values())) == len(one.output)


async def test_ids_may_be_more_than_a_statement_takes(store: Store) -> None:
    one = turn("one")
    await put(store, one)
    ids = [*map(str, range(70_000)), "out_one"]
    assert await store.items("a", ids) == {"out_one": one.output[0]}


async def test_no_ids_find_no_items(store: Store) -> None:
    assert await store.items("a", []) == {}


async def test_a_run_is_seen_before_it_ends(store: Store) -> None:
    started = running("one")
    await store.begin(started)
    assert await store.get("a", "one") == started
    assert await store.ledger("a", "one") == Ledger((), ended=False)
    await store.append("one", numbered(0, 1))
    await store.append("one", numbered(2))
    assert await store.ledger("a", "one", 1) == Ledger(tuple(numbered(1, 2)), ended=False)


async def test_a_run_that_ended_has_its_whole_response_and_events(store: Store) -> None:
    await store.begin(running("one"))
    await store.append("one", numbered(0))
    ended = turn("one", status="completed")
    await store.end(ended, numbered(0, 1, 2))
    assert await store.get("a", "one") == ended
    assert await store.ledger("a", "one") == Ledger(tuple(numbered(0, 1, 2)), ended=True)
    assert await store.ledger("a", "one", 2) == Ledger(tuple(numbered(2)), ended=True)
    assert await store.ledger("a", "one", 3) == Ledger((), ended=True)


@pytest.mark.parametrize("start", [0, 999, 1000, 2499, 2500, 9999])
async def test_a_long_ledger_is_read_from_anywhere(store: Store, start: int) -> None:
    events = numbered(*range(2500))
    await put(store, turn("one"), events)
    assert await store.ledger("a", "one", start) == Ledger(tuple(events[start:]), ended=True)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("start", [0, 999, 1000])
async def test_a_long_ledger_is_read_a_part_at_a_time(
    store: Store, start: int, ended: bool
) -> None:
    events = numbered(*range(2500))
    await store.begin(running("one"))
    for first in range(0, 2500, 500):
        await store.append("one", events[first : first + 500])
    if ended:
        await store.end(turn("one", status="completed"), events)
    read: list[dict[str, Any]] = []
    while (ledger := await store.ledger("a", "one", start + len(read), most=600)) and ledger.more:
        assert 600 <= len(ledger.events) < 1600
        assert not ledger.ended
        read += ledger.events
    assert ledger is not None
    assert len(ledger.events) < 1600
    assert ledger.ended == ended
    assert [*read, *ledger.events] == events[start:]


async def test_a_run_that_ended_gets_no_more_events(store: Store) -> None:
    await store.begin(running("one"))
    await store.end(turn("one"), numbered(0))
    with pytest.raises(RunLost):
        await store.append("one", numbered(1))
    with pytest.raises(RunLost):
        await store.end(turn("one", status="failed"), numbered(0, 1))
    assert await store.ledger("a", "one") == Ledger(tuple(numbered(0)), ended=True)


async def test_events_that_are_appended_again_are_stored_once(store: Store) -> None:
    await store.begin(running("one"))
    await store.append("one", numbered(0, 1))
    await store.append("one", numbered(2))
    await store.append("one", numbered(2, 3, 4))
    await store.append("one", numbered(5))
    expected = Ledger(tuple(numbered(0, 1, 2, 3, 4, 5)), ended=False)
    assert await store.ledger("a", "one") == expected


async def test_a_run_that_is_ended_again_ends_once(store: Store) -> None:
    owned = Conversation("a", "conv", 0, "2026-01-31", {})
    await store.conversations.create(owned, ())
    ended = turn("one", status="completed", conversation={"id": "conv"})
    await store.begin(running("one", conversation={"id": "conv"}))
    for _ in range(2):
        await store.end(ended, numbered(0, 1))
    assert await store.get("a", "one") == ended
    assert await store.ledger("a", "one") == Ledger(tuple(numbered(0, 1)), ended=True)
    read = await store.conversations.read("a", "conv")
    assert read is not None
    assert [entry.item["id"] for entry in read.items] == ["in_one", "out_one"]


async def test_a_response_that_is_deleted_while_it_is_made_stays_deleted(store: Store) -> None:
    await store.begin(running("one"))
    assert await store.heartbeat(["one"]) == frozenset()
    await store.delete("a", "one")
    assert await store.heartbeat(["one"]) == {"one"}
    await store.end(turn("one"), numbered(0))
    assert await store.get("a", "one") is None
    assert await store.items("a", ["out_one"]) == {}


async def test_another_owner_cancels_no_run_by_a_deletion(store: Store) -> None:
    await store.begin(running("one"))
    assert not await store.delete("b", "one")
    assert await store.heartbeat(["one"]) == frozenset()


async def test_a_run_is_notified_of_its_cancellation(store: Store) -> None:
    await store.begin(running("one"))
    await store.begin(running("two"))
    with store.listen(CANCELS) as changes:
        await store.cancel("one")
        await changes.wait()
    assert await store.heartbeat(["one", "two"]) == {"one"}
    assert await store.heartbeat(["two"]) == frozenset()
    assert await store.heartbeat([]) == frozenset()


async def test_a_reader_hears_of_new_events_and_of_the_end(store: Store) -> None:
    await store.begin(running("one"))
    following = asyncio.create_task(followed(store, "one"))
    await store.append("one", numbered(0))
    await store.append("one", numbered(1))
    await store.end(turn("one"), numbered(0, 1, 2))
    assert await following == numbered(0, 1, 2)


async def test_many_runs_at_once_are_independent(store: Store) -> None:
    async def run(name: str) -> None:
        await store.begin(running(name))
        for number in range(3):
            await store.append(name, numbered(number))
        await store.end(turn(name), numbered(0, 1, 2, 3))

    names = [f"run_{number}" for number in range(20)]
    await asyncio.gather(*map(run, names))
    for name in names:
        assert await store.get("a", name) == turn(name)
        assert await store.ledger("a", name) == Ledger(tuple(numbered(0, 1, 2, 3)), ended=True)


RESULT = Message(Author(Role.TOOL, "python"), "2 \u0000", Channel.ANALYSIS, "assistant")


async def test_the_result_of_a_hosted_call_is_stored_beside_its_item(store: Store) -> None:
    stored = StoredItem({"id": "out", "type": "code_interpreter_call"}, CALL, RESULT)
    await put(store, turn("one", made=(stored,)))
    assert (await store.items("a", ["out"]))["out"] == stored
    continued = await store.get("a", "one")
    assert continued is not None
    assert continued.output == (stored,)


async def test_the_state_of_tools_is_stored_with_the_end_of_a_response(store: Store) -> None:
    earlier: dict[str, dict[str, Any]] = {"browser": {"pages": 1}, "python": {"container": "old"}}
    started = replace(running("one"), tool_state=earlier)
    await store.begin(started)
    begun = await store.get("a", "one")
    assert begun is not None
    assert begun.tool_state == earlier
    state = {"python": {"container": "new"}}
    ended = started.ended({**started.response, "status": "completed"}, {}, {}, state)
    await store.end(ended, numbered(0))
    got = await store.get("a", "one")
    assert got is not None
    assert got.tool_state == {"browser": {"pages": 1}, "python": {"container": "new"}}


async def test_a_conversation_has_the_results_and_the_state_of_its_last_response(
    store: Store,
) -> None:
    await store.conversations.create(Conversation("a", "conv_1", 1, "2026-01-31"), ())
    stored = StoredItem({"id": "out", "type": "code_interpreter_call"}, CALL, RESULT)
    fields: dict[str, Any] = {"conversation": {"id": "conv_1"}}
    await store.begin(running("one", **fields))
    ended = replace(
        turn("one", input_items=(), made=(stored,), status="completed", **fields),
        tool_state={"python": {"container": "c"}},
    )
    await store.end(ended, numbered(0))
    read = await store.conversations.read("a", "conv_1")
    assert read is not None
    assert read.items == (stored,)
    assert read.tool_state == {"python": {"container": "c"}}
    assert await store.conversations.add("a", "conv_1", (item("more"),))
    again = await store.conversations.read("a", "conv_1")
    assert again is not None
    assert again.tool_state == read.tool_state
