"""Choices that are merged: what their order is, and how they end together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from server.errors import (
    APIError,
    ClientTooSlow,
    InvalidRequest,
    RateLimited,
    ServerFailed,
    Unavailable,
)
from server.generation import parallel_samples
from server.generation.admission import Admission
from server.generation.answer import stopped
from server.generation.answer_spec import AnswerSpec, LastEvents
from server.generation.gateway import Gateway as RealGateway
from server.generation.runs import Emit, Journal, Run, Runs, Show, WireEvent
from server.generation.turn_events import TextDelta, TurnEvent, TurnFinished, Usage
from tests.sampled import final
from tests.server.generation.recorder import Recorder
from tests.server.tools.hosted import Session, plan
from tests.waiting import settle


class Turn:
    """The sampling of one choice, controlled by the test."""

    def __init__(self, outbound: Any, last_events: LastEvents) -> None:
        self.outbound = outbound
        self.last_events = last_events
        self.cancelled = False
        self.may_start = asyncio.Event()
        self.may_start.set()
        self._queue: asyncio.Queue[TurnEvent | APIError] = asyncio.Queue()

    def say(self, *texts: str) -> None:
        for text in texts:
            self._queue.put_nowait(TextDelta(0, text))

    def finish(self) -> None:
        self._queue.put_nowait(TurnFinished("stop", Usage(1)))

    def fail(self, error: APIError) -> None:
        self._queue.put_nowait(error)

    async def __call__(self, emit: Emit) -> None:
        try:
            await self.may_start.wait()
            await emit(self.outbound.start())
            while True:
                event = await self._queue.get()
                if isinstance(event, APIError):
                    await emit(self.outbound.fail(event))
                    raise event
                await emit(self.outbound.push(event))
                if isinstance(event, TurnFinished):
                    await emit(self.last_events())
                    return
        except asyncio.CancelledError:
            self.cancelled = True
            raise


class Gateway:
    """Starts at most `room` choices."""

    def __init__(self, room: int = 8) -> None:
        self.runs = Runs()
        self.admission = Admission(running=2, waiting=2)
        self.turns: list[Turn] = []
        self.specs: list[AnswerSpec] = []
        self._room = room

    async def start(self, spec: AnswerSpec) -> Run:
        if len(self.turns) == self._room:
            raise RateLimited("full")
        self.specs.append(spec)
        self.turns.append(Turn(spec.outbound, spec.last_events))
        if spec.journal is not None:
            await spec.journal.begin()
        return self.runs.start(self.turns[-1], spec.request_id, journal=spec.journal)


class Outbound:
    """Emits the events of the test, with its index."""

    open_item_id: str | None = None

    def __init__(self, index: int) -> None:
        self._index = index

    def start(self) -> list[WireEvent]:
        return [{"text": (self._index, "start")}]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        texts = event.text if isinstance(event, TextDelta) else "finish"
        return [{"text": (self._index, texts)}]

    def fail(self, error: APIError) -> list[WireEvent]:
        return [{"text": (self._index, "fail"), "error": error.message}]

    def cancel(self) -> list[WireEvent]:
        return []


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.begin_count = 0
        self.events: list[WireEvent] = []

    async def begin(self) -> None:
        self.begin_count += 1

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        await asyncio.sleep(0)
        self.events.extend(events)
        show(events)


def last() -> list[WireEvent]:
    return [{"text": "last"}]


async def begin(
    gateway: Any,
    count: int,
    journal: Journal | None = None,
    last_events: LastEvents = last,
    **options: Any,
) -> Run:
    plan: Any = None
    choices = [AnswerSpec(plan, Outbound(index), "id") for index in range(count)]
    return await parallel_samples.start(gateway, choices, last_events, journal=journal, **options)


async def read(run: Run) -> list[Any]:
    return [event.get("text") async for batch in run.follow() for event in batch]


@pytest.mark.parametrize("count", [1, 3])
async def test_the_last_events_come_when_all_choices_have_finished(count: int) -> None:
    gateway = Gateway()
    run = await begin(gateway, count)
    for turn in reversed(gateway.turns):
        turn.say("a", "b")
        turn.finish()
    texts = await read(run)
    assert texts[-1] == "last"
    for index in range(count):
        own = [text for each, text in texts[:-1] if each == index]
        assert own == ["start", "a", "b", "finish"]


@pytest.mark.parametrize("index", [0, 1, 2])
async def test_nothing_follows_an_error(index: int) -> None:
    gateway = Gateway()
    run = await begin(gateway, 3)
    gateway.turns[index].fail(ServerFailed("broken"))
    for turn in gateway.turns:
        turn.say(*"abcdef")
        turn.finish()
    assert (await read(run))[-1] == (index, "fail")


async def test_choices_appear_in_their_order_whichever_is_first() -> None:
    gateway = Gateway()
    run = await begin(gateway, 3)
    gateway.turns[0].may_start.clear()
    gateway.turns[2].say("quick")
    reading = asyncio.ensure_future(read(run))
    await settle()
    gateway.turns[0].may_start.set()
    await settle()
    for turn in gateway.turns:
        turn.finish()
    texts = await reading
    assert [index for index, text in texts[:-1] if text == "start"] == [0, 1, 2]
    assert texts.index((2, "quick")) < texts.index((0, "finish"))


async def test_the_first_failure_ends_all() -> None:
    gateway = Gateway()
    run = await begin(gateway, 3)
    reading = asyncio.ensure_future(read(run))
    await settle()
    gateway.turns[1].fail(ServerFailed("broken"))
    texts = await reading
    assert texts[-1] == (1, "fail")
    assert run.error is not None
    assert run.error.message == "broken"
    await settle()
    assert [turn.cancelled for turn in gateway.turns] == [True, False, True]


async def test_last_events_that_cannot_be_made_end_all_with_an_error() -> None:
    def cannot_be_made() -> list[WireEvent]:
        raise ServerFailed("broken")

    gateway = Gateway()
    run = await begin(gateway, 2, last_events=cannot_be_made)
    for turn in gateway.turns:
        turn.finish()
    batches = [batch async for batch in run.follow()]
    assert run.error is not None
    assert run.error.message == "broken"
    assert batches[-1] == [run.error.body()]


@pytest.mark.parametrize(("per_prompt", "prompts"), [(None, 1), (2, 2), (4, 1)])
async def test_the_tokens_of_a_prompt_count_once(per_prompt: int | None, prompts: int) -> None:
    gateway = Gateway()
    run = await begin(gateway, 4, per_prompt=per_prompt)
    counts = [id(spec.prompt_count) for spec in gateway.specs]
    size = 4 // prompts
    assert counts == [counts[index // size * size] for index in range(4)]
    assert len(set(counts)) == prompts
    run.cancel()
    await run.wait()


async def test_a_reader_that_leaves_takes_all_choices_with_it() -> None:
    gateway = Gateway()
    run = await begin(gateway, 2)
    reading = asyncio.ensure_future(read(run))
    await settle()
    reading.cancel()
    await settle()
    assert run.done
    assert all(turn.cancelled for turn in gateway.turns)


async def test_a_reader_that_leaves_before_the_first_choice_starts_ends_the_others_too() -> None:
    gateway = Gateway()
    run = await begin(gateway, 2)
    gateway.turns[0].may_start.clear()
    reading = asyncio.ensure_future(read(run))
    await settle()
    reading.cancel()
    await settle()
    assert run.done
    assert [turn.cancelled for turn in gateway.turns] == [True, True]


async def test_choices_may_be_ended_for_a_reason() -> None:
    gateway = Gateway()
    run = await begin(gateway, 2)
    await settle()
    reason = ClientTooSlow(1)
    run.cancel(reason)
    # Not the events with which a choice fails: it may have ended, or emitted what nobody has read.
    assert [batch async for batch in run.follow()][-1] == [reason.body()]
    assert run.error is reason
    await settle()
    assert [turn.cancelled for turn in gateway.turns] == [True, True]


async def test_choices_end_with_an_error_when_the_server_stops() -> None:
    gateway = Gateway()
    run = await begin(gateway, 2)
    await settle()
    gateway.runs.cancel()
    assert [batch async for batch in run.follow()][-1] == [stopped().body()]
    assert isinstance(run.error, Unavailable)


async def test_the_events_of_choices_are_stored_once() -> None:
    gateway = Gateway()
    run = await begin(gateway, 2)
    singles = [single for index in range(2) if (single := gateway.runs.find(f"id-{index}"))]
    for turn in gateway.turns:
        turn.say("a", "b")
    await settle()
    assert [len(single.events) for single in singles] == [0, 0]
    assert len(run.events) == 6
    run.cancel()
    await run.wait()


async def test_choices_that_are_left_at_once_are_not_left_behind() -> None:
    gateway = Gateway()
    run = await begin(gateway, 2)
    run.cancel()
    await settle()
    assert run.done
    assert all(turn.cancelled for turn in gateway.turns)


async def test_more_choices_than_there_will_ever_be_room_for_are_refused() -> None:
    gateway: Any = Gateway()
    await begin(gateway, 4)
    sessions = [Session() for _ in range(5)]
    choices = [AnswerSpec(plan(), Recorder(), "id", sessions=[each]) for each in sessions]
    with pytest.raises(InvalidRequest) as refused:
        await parallel_samples.start(gateway, choices, last)
    assert refused.value.param == "n"
    assert len(gateway.turns) == 4
    assert [session.closed for session in sessions] == [1] * 5


async def test_where_not_all_have_room_none_runs() -> None:
    gateway = Gateway(room=2)
    with pytest.raises(RateLimited):
        await begin(gateway, 3)
    await settle()
    assert all(turn.cancelled for turn in gateway.turns)


async def test_where_not_all_have_room_the_sessions_of_all_are_closed(
    start_engine: Callable[..., Awaitable[Any]],
) -> None:
    gate = RealGateway(await start_engine(final()), Admission(running=1, waiting=3))
    for _ in range(2):
        gate.admission.enter()
    sessions = [Session() for _ in range(4)]
    choices = [AnswerSpec(plan(), Recorder(), "id", sessions=[each]) for each in sessions]
    with pytest.raises(RateLimited):
        await parallel_samples.start(gate, choices, last)
    await gate.close()
    assert [session.closed for session in sessions] == [1, 1, 1, 1]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_journal_keeps_what_is_shown(count: int) -> None:
    gateway, journal = Gateway(), Kept()
    run = await begin(gateway, count, journal)
    for turn in gateway.turns:
        turn.say("a", "b", "c")
        turn.finish()
    texts = await read(run)
    assert journal.begin_count == 1
    assert [event["text"] for event in journal.events] == texts
    assert len(texts) == 5 * count + 1
