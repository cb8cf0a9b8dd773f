import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from adapters.base import GenerationRequest
from adapters.errors import BackendFailed, ContextTooLong
from harmony.messages import Author, Conversation, Message, Role
from harmony.render import render as harmony_render
from server import threads
from server.errors import (
    APIError,
    ClientTooSlow,
    ContextLengthExceeded,
    EngineDown,
    RateLimited,
    ServerFailed,
    Unavailable,
)
from server.generation import loop as loop_module
from server.generation import parallel_samples, turn
from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.generation.plan import TurnPlan
from server.generation.runs import Run, Show, WireEvent
from server.generation.turn_events import TextDelta, TurnEvent, TurnFinished
from tests.server.generation.test_metering import Observed
from tests.waiting import until

ANSWER = "<|channel|>final<|message|>One two<|return|>"
SLOW = {"completion": ANSWER, "delay_ms": 60_000}
PLAN = TurnPlan(Conversation((Message(Author(Role.USER), "A secret question"),)))

StartEngine = Callable[..., Awaitable[Any]]


class Told:
    """An outbound that tells each turn event's kind, and the text of deltas."""

    open_item_id: str | None = None

    def __init__(self) -> None:
        self.broken: Exception | None = None

    def start(self) -> list[WireEvent]:
        return [{"type": "started"}]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        if self.broken is not None:
            raise self.broken
        if isinstance(event, TextDelta):
            return [{"type": "text", "text": event.text}]
        return [{"type": "finished"}] if isinstance(event, TurnFinished) else []

    def fail(self, error: APIError) -> list[WireEvent]:
        return [{"type": "failed", "code": error.code}]

    def cancel(self) -> list[WireEvent]:
        return [{"type": "cancelled"}]


class Kept:
    """A journal of the events' kinds."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    async def begin(self) -> None:
        self.kinds.append("begun")

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        await asyncio.sleep(0)
        self.kinds += [event["type"] for event in events]
        show(events)


def gateway(engine: Any, running: int = 4, waiting: int = 4) -> Gateway:
    return Gateway(engine, Admission(running, waiting))


def kinds(run: Run) -> list[str]:
    return [event["type"] for event in run.events]


async def settled(run: Run) -> None:
    await run.wait()
    await asyncio.sleep(0)


async def test_a_plan_becomes_a_run_of_wire_events(start_engine: StartEngine) -> None:
    gate = gateway(await start_engine(ANSWER))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r"))
    assert [event async for batch in run.follow() for event in batch] == [
        {"type": "started"},
        {"type": "text", "text": "One"},
        {"type": "text", "text": " two"},
        {"type": "finished"},
    ]
    await settled(run)
    assert run.error is None
    assert gate.admission.admitted == 0


@pytest.mark.parametrize("length", [1, threads.MOST_SMALL])
async def test_choices_share_one_rendering_of_their_prompt(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    rendered: list[Conversation] = []

    def render(conversation: Conversation, *limits: int) -> list[int]:
        rendered.append(conversation)
        return harmony_render(conversation, *limits)

    monkeypatch.setattr(turn, "render", render)
    engine = await start_engine(ANSWER)
    long = Message(Author(Role.USER), "a" * length)
    plans = [TurnPlan(Conversation((long,)), seed=seed) for seed in range(3)]
    choices = [AnswerSpec(plan, Told(), "r") for plan in plans]
    run = await parallel_samples.start(gateway(engine), choices, tuple)
    await settled(run)
    assert len(rendered) == 1
    assert [request.seed for request in engine.requests] == [0, 1, 2]
    assert [request.request_id for request in engine.requests] == ["r-0", "r-1", "r-2"]
    assert len({request.prompt_token_ids for request in engine.requests}) == 1
    assert len({request.affinity for request in engine.requests}) == 1


async def test_the_request_id_reaches_the_engine(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    await settled(await gateway(engine).start(AnswerSpec(PLAN, Told(), "resp_1")))
    assert [request.request_id for request in engine.requests] == ["resp_1"]


async def test_a_journal_gets_every_event(start_engine: StartEngine) -> None:
    journal = Kept()
    run = await gateway(await start_engine(ANSWER)).start(
        AnswerSpec(PLAN, Told(), "r", journal=journal)
    )
    await settled(run)
    assert kinds(run) == ["started", "text", "text", "finished"]
    assert journal.kinds == ["begun", *kinds(run)]


# Refused before anything runs


async def test_a_dead_engine_is_a_refusal(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    engine.failure = BackendFailed("out of memory")
    gate = gateway(engine)
    with pytest.raises(EngineDown, match="out of memory"):
        await gate.start(AnswerSpec(PLAN, Told(), "r"))
    assert gate.admission.admitted == 0


async def test_a_prompt_too_long_is_a_refusal(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    engine.changes["context_length"] = 1
    gate = gateway(engine)
    with pytest.raises(ContextLengthExceeded):
        await gate.start(AnswerSpec(PLAN, Told(), "r"))
    assert gate.admission.admitted == 0


@pytest.mark.parametrize("part", ["engine", "journal", "defect", "mistake"])
async def test_an_answer_that_cannot_start_has_failed_unless_the_request_is_wrong(
    start_engine: StartEngine, part: str
) -> None:
    errors: dict[str, Exception] = {"journal": Unavailable("No room."), "defect": OSError()}

    class Full(Kept):
        async def begin(self) -> None:
            if part in errors:
                raise errors[part]

    engine, observed = await start_engine(ANSWER), Observed()
    if part == "engine":
        engine.failure = BackendFailed("out of memory")
    if part == "mistake":
        engine.changes["context_length"] = 1
    gate = Gateway(engine, Admission(1, 0), observer=observed)
    with pytest.raises((APIError, OSError)) as raised:
        await gate.start(AnswerSpec(PLAN, Told(), "r", journal=Full()))
    code = getattr(raised.value, "code", "server_error")
    expected = [] if part == "mistake" else [("error", code)]
    assert [(each.reason, each.error) for each in observed.answers] == expected


async def test_a_full_queue_is_a_refusal(start_engine: StartEngine) -> None:
    gate = gateway(await start_engine(SLOW), running=1, waiting=1)
    runs = [await gate.start(AnswerSpec(PLAN, Told(), name)) for name in "ab"]
    with pytest.raises(RateLimited) as refusal:
        await gate.start(AnswerSpec(PLAN, Told(), "r"))
    assert refusal.value.headers == {"Retry-After": "1"}
    await gate.runs.close()
    await asyncio.gather(*map(settled, runs))
    assert gate.admission.admitted == 0


async def test_leaving_while_the_prompt_is_prepared_gives_the_place_back(
    start_engine: StartEngine,
) -> None:
    observed = Observed()
    gate = Gateway(await start_engine(ANSWER), Admission(4, 4), observer=observed)
    # A short one is prepared at once.
    long = Message(Author(Role.USER), "a" * threads.MOST_SMALL)
    starting = asyncio.create_task(
        gate.start(AnswerSpec(TurnPlan(Conversation((long,))), Told(), "r"))
    )
    await asyncio.sleep(0)
    assert gate.admission.admitted == 1
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    assert gate.admission.admitted == 0
    assert [each.reason for each in observed.answers] == ["abort"]


async def test_an_answer_without_a_token_that_cannot_be_stored_fails(
    start_engine: StartEngine,
) -> None:
    class Full(Kept):
        async def write(self, events: Sequence[WireEvent], show: Show) -> None:
            if events[-1]["type"] == "finished":
                raise Unavailable("No room.")
            await super().write(events, show)

    gate = gateway(await start_engine(ANSWER))
    run = await gate.start_empty(Told(), "r", journal=Full())
    await settled(run)
    assert kinds(run) == ["failed"]
    assert isinstance(run.error, Unavailable)


# Waiting


async def test_waiting_requests_run_in_the_order_they_came(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    gate = gateway(engine, running=1, waiting=3)
    runs = [await gate.start(AnswerSpec(PLAN, Told(), str(number))) for number in range(4)]
    await asyncio.gather(*map(settled, runs))
    assert [request.request_id for request in engine.requests] == ["0", "1", "2", "3"]


async def test_a_waiting_request_has_begun_for_its_client(start_engine: StartEngine) -> None:
    gate = gateway(await start_engine(SLOW), running=1, waiting=1)
    await gate.start(AnswerSpec(PLAN, Told(), "running"))
    waiting = await gate.start(AnswerSpec(PLAN, Told(), "waiting"))
    async with aclosing(waiting.follow()) as events:
        assert await anext(events) == [{"type": "started"}]
    await gate.runs.close()


async def test_leaving_while_waiting_never_reaches_the_engine(start_engine: StartEngine) -> None:
    engine = await start_engine(SLOW)
    gate = gateway(engine, running=1, waiting=1)
    await gate.start(AnswerSpec(PLAN, Told(), "first"))
    waiting = await gate.start(AnswerSpec(PLAN, Told(), "second"))
    async with aclosing(waiting.follow()) as events:
        await anext(events)
    await settled(waiting)
    assert kinds(waiting) == ["cancelled"]
    assert gate.admission.admitted == 1
    await gate.runs.close()
    assert [request.request_id for request in engine.requests] == ["first"]


# Ended early


class SlowBegin(Kept):
    """A journal that has begun once `free` is set. failure: raised then."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self._failure = failure

    async def begin(self) -> None:
        await super().begin()
        await self.free.wait()
        if self._failure is not None:
            raise self._failure


async def cancelled_in_begin(start: Awaitable[Run], journal: SlowBegin) -> None:
    task = asyncio.ensure_future(start)
    await until(lambda: journal.kinds == ["begun"])
    task.cancel()
    await asyncio.sleep(0)
    journal.free.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("completion", [ANSWER, SLOW])
async def test_an_answer_whose_caller_leaves_while_it_is_stored_gets_its_end(
    start_engine: StartEngine, completion: Any
) -> None:
    gate, journal = gateway(await start_engine(completion)), SlowBegin()
    await cancelled_in_begin(gate.start(AnswerSpec(PLAN, Told(), "r", journal=journal)), journal)
    await gate.runs.wait()
    assert journal.kinds == ["begun", "started", "cancelled"]
    assert (gate.admission.admitted, gate.admission.running) == (0, 0)


async def test_an_answer_that_cannot_be_stored_when_its_caller_leaves_is_none(
    start_engine: StartEngine,
) -> None:
    gate, journal = gateway(await start_engine(ANSWER)), SlowBegin(Unavailable("No room."))
    await cancelled_in_begin(gate.start(AnswerSpec(PLAN, Told(), "r", journal=journal)), journal)
    assert gate.runs.find("r") is None
    assert gate.admission.admitted == 0


async def test_an_empty_answer_whose_caller_leaves_while_it_is_stored_gets_its_end(
    start_engine: StartEngine,
) -> None:
    gate, journal = gateway(await start_engine(ANSWER)), SlowBegin()
    await cancelled_in_begin(gate.start_empty(Told(), "r", journal=journal), journal)
    await gate.runs.wait()
    assert journal.kinds == ["begun", "started", "finished"]


async def test_the_last_follower_to_leave_frees_slot_and_engine(start_engine: StartEngine) -> None:
    engine = await start_engine(SLOW)
    gate = gateway(engine)
    journal = Kept()
    run = await gate.start(AnswerSpec(PLAN, Told(), "r", journal=journal))
    async with aclosing(run.follow()) as events:
        await anext(events)
        await until(lambda: engine.open == 1)
    await settled(run)
    assert (engine.open, gate.admission.admitted) == (0, 0)
    assert journal.kinds[-1] == "cancelled"


async def test_a_run_that_nobody_follows_ends_and_leaves_the_queue(
    start_engine: StartEngine,
) -> None:
    gate = gateway(await start_engine(ANSWER))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r"))
    await settled(run)
    assert kinds(run)[-1] == "finished"
    assert gate.admission.admitted == 0


async def test_a_background_run_goes_on_without_followers(start_engine: StartEngine) -> None:
    gate = gateway(await start_engine(ANSWER))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r", background=True))
    async with aclosing(run.follow()) as events:
        await anext(events)
    await settled(run)
    assert kinds(run)[-1] == "finished"


async def test_shutting_down_ends_all_runs(start_engine: StartEngine) -> None:
    engine = await start_engine(SLOW)
    gate = gateway(engine)
    specs = [AnswerSpec(PLAN, Told(), str(n), background=bool(n)) for n in range(2)]
    runs = [await gate.start(spec) for spec in specs]
    await gate.runs.close()
    await asyncio.gather(*map(settled, runs))
    # The background run was not cancelled.
    assert [kinds(run) for run in runs] == [["started", "cancelled"], ["started", "failed"]]
    assert (engine.open, gate.admission.admitted) == (0, 0)


async def test_an_answer_without_a_cancelled_state_fails_when_the_server_stops(
    start_engine: StartEngine,
) -> None:
    class Wordless(Told):
        def cancel(self) -> list[WireEvent]:
            return []

    gate = gateway(await start_engine(SLOW), running=1)
    running, waiting = [await gate.start(AnswerSpec(PLAN, Wordless(), name)) for name in "ab"]
    await gate.runs.close()
    for run in (running, waiting):
        await settled(run)
        assert kinds(run) == ["started", "failed"]
        assert isinstance(run.error, Unavailable)


async def test_an_answer_may_be_ended_for_a_reason(start_engine: StartEngine) -> None:
    engine = await start_engine(SLOW)
    gate = gateway(engine)
    run = await gate.start(AnswerSpec(PLAN, Told(), "r"))
    await until(lambda: engine.open == 1)
    reason = ClientTooSlow(1)
    run.cancel(reason)
    run.cancel()
    await settled(run)
    assert kinds(run) == ["started", "failed"]
    assert run.error is reason
    assert (engine.open, gate.admission.admitted) == (0, 0)


async def test_an_engine_that_breaks_ends_the_answer_with_its_error(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine = await start_engine(ANSWER)
    engine.breaks = BackendFailed("no line for 'A secret question'")
    gate = gateway(engine)
    run = await gate.start(AnswerSpec(PLAN, Told(), "resp_1"))
    await settled(run)
    assert run.events[-1] == {"type": "failed", "code": "server_error"}
    assert isinstance(run.error, ServerFailed)
    assert "no line" in run.error.message
    assert gate.admission.admitted == 0
    assert "resp_1" in caplog.text
    assert "secret" not in caplog.text


async def test_an_engine_that_just_ends_has_failed(start_engine: StartEngine) -> None:
    class Silent(Lingering):
        async def generate(self, request: GenerationRequest) -> Any:
            chunks: tuple[Any, ...] = ()
            for chunk in chunks:
                yield chunk

    run = await gateway(Silent(await start_engine(ANSWER))).start(AnswerSpec(PLAN, Told(), "r"))
    await settled(run)
    assert isinstance(run.error, ServerFailed)
    assert "without a finish reason" in run.error.message


async def test_the_engines_refusal_names_the_clients_field(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    engine.breaks = ContextTooLong(9, 8)
    run = await gateway(engine).start(AnswerSpec(PLAN, Told(), "r"))
    await settled(run)
    assert isinstance(run.error, ContextLengthExceeded)
    assert run.error.param == "input"


async def test_a_stop_string_frees_the_engine(start_engine: StartEngine) -> None:
    engine = await start_engine({"completion": ANSWER, "tokens_per_chunk": 4})
    run = await gateway(engine).start(AnswerSpec(replace(PLAN, stop=("One",)), Told(), "r"))
    await settled(run)
    assert (kinds(run), engine.open) == (["started", "finished"], 0)


async def test_the_last_text_is_sent_before_the_end_is_stored(start_engine: StartEngine) -> None:
    class Stuck(Kept):
        async def write(self, events: Sequence[WireEvent], show: Show) -> None:
            if events[-1]["type"] == "finished":
                raise RateLimited("later")
            await super().write(events, show)

    engine = await start_engine({"completion": ANSWER, "tokens_per_chunk": 100})
    run = await gateway(engine).start(AnswerSpec(PLAN, Told(), "r", journal=Stuck()))
    await settled(run)
    assert kinds(run)[:2] == ["started", "text"]


async def test_the_last_events_of_all_end_the_answer(start_engine: StartEngine) -> None:
    asked: list[WireEvent] = [{"type": "last"}]
    gate = gateway(await start_engine(ANSWER))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r", last_events=lambda: asked))
    await settled(run)
    assert kinds(run) == ["started", "text", "text", "finished", "last"]


async def test_errors_of_the_client_are_not_logged(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    outbound = Told()
    outbound.broken = RateLimited("later")
    run = await gateway(await start_engine(ANSWER)).start(AnswerSpec(PLAN, outbound, "r"))
    await settled(run)
    assert kinds(run) == ["started", "failed"]
    assert caplog.records == []


async def test_a_bug_ends_the_answer_as_the_servers_error(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    outbound = Told()
    outbound.broken = ValueError("a bug")
    gate = gateway(await start_engine(ANSWER))
    run = await gate.start(AnswerSpec(PLAN, outbound, "resp_1"))
    await settled(run)
    assert run.events[-1] == {"type": "failed", "code": "server_error"}
    assert run.error is not None
    assert "a bug" not in run.error.message
    (record,) = caplog.records
    assert "resp_1" in record.getMessage()
    assert record.exc_info is not None
    assert gate.admission.admitted == 0


# Who is served first


async def test_a_lower_priority_is_served_before_those_who_wait_longer(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine({**SLOW, "prompt_contains": "secret"}, ANSWER)
    gate = gateway(engine, running=1)
    first = await gate.start(AnswerSpec(PLAN, Told(), "first"))
    other = TurnPlan(Conversation((Message(Author(Role.USER), "Another"),)))
    late = await gate.start(AnswerSpec(replace(other, priority=5), Told(), "late"))
    early = await gate.start(AnswerSpec(replace(other, priority=-5), Told(), "early"))
    first.cancel()
    await asyncio.gather(*map(settled, (first, late, early)))
    assert [request.request_id for request in engine.requests] == ["first", "early", "late"]


async def test_a_request_that_is_evicted_gets_a_429(
    start_engine: StartEngine,
) -> None:
    gate = gateway(await start_engine(SLOW), running=1, waiting=1)
    first = await gate.start(AnswerSpec(PLAN, Told(), "first"))
    late = await gate.start(AnswerSpec(replace(PLAN, priority=1), Told(), "late"))
    await until(lambda: kinds(late) == ["started"])
    early = await gate.start(AnswerSpec(PLAN, Told(), "early"))
    await settled(late)
    assert isinstance(late.error, RateLimited)
    assert late.events[-1] == {"type": "failed", "code": "rate_limit_exceeded"}
    assert gate.admission.admitted == 2
    await gate.runs.close()
    await asyncio.gather(*map(settled, (first, early)))


# After the last event


class Lingering:
    """An engine that has more to do when its last chunk is out."""

    def __init__(self, engine: Any, error: Exception | None = None) -> None:
        self._engine = engine
        self._error = error
        self.lingers = asyncio.Event()
        self.info = engine.info
        self.check = engine.check

    async def generate(self, request: GenerationRequest) -> Any:
        try:
            async for chunk in self._engine.generate(request):
                yield chunk
        finally:
            self.lingers.set()
            if self._error is not None:
                raise self._error
            await asyncio.Event().wait()


class StuckAtTheEnd(Kept):
    """A journal that shows the last event, but has not stored it before `free` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = asyncio.Event()
        self.free = asyncio.Event()

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        await super().write(events, show)
        if events[-1]["type"] == "finished":
            self.is_stuck.set()
            await self.free.wait()


async def test_leaving_after_the_last_event_does_not_cancel_the_answer(
    start_engine: StartEngine,
) -> None:
    journal = StuckAtTheEnd()
    gate = gateway(await start_engine(ANSWER))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r", journal=journal))
    async with aclosing(run.follow()) as events:
        async for batch in events:
            if batch[-1]["type"] == "finished":
                break
    journal.free.set()
    await settled(run)
    assert kinds(run)[-1] == "finished"
    assert gate.admission.admitted == 0


async def test_an_answer_whose_end_is_being_stored_has_left_the_engine(
    start_engine: StartEngine,
) -> None:
    journal = StuckAtTheEnd()
    engine = await start_engine({"completion": ANSWER, "tokens_per_chunk": 4})
    gate = gateway(engine, running=1)
    stopped = replace(PLAN, stop=("two",))
    run = await gate.start(AnswerSpec(stopped, Told(), "r", journal=journal, background=True))
    await journal.is_stuck.wait()
    assert (engine.open, gate.admission.running) == (0, 0)
    journal.free.set()
    await settled(run)
    assert kinds(run)[-1] == "finished"


async def test_an_error_after_the_last_event_is_logged_alone(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    gate = gateway(Lingering(await start_engine(ANSWER), ValueError("a bug")))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r"))
    await settled(run)
    assert (kinds(run)[-1], run.error) == ("finished", None)
    assert len(caplog.records) == 1


async def test_an_engine_that_is_slow_to_close_does_not_keep_an_answer_from_its_end(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_module, "CLOSE_SECONDS", 0.01)
    gate = gateway(Lingering(await start_engine(ANSWER)))
    run = await gate.start(AnswerSpec(PLAN, Told(), "r"))
    await settled(run)
    assert (kinds(run)[-1], run.error) == ("finished", None)
    assert [record.getMessage() for record in caplog.records] == [
        "request r: the engine is slow to close it"
    ]


async def test_an_engine_whose_own_work_is_cancelled_fails_the_answer(
    start_engine: StartEngine,
) -> None:
    class Interrupted(Lingering):
        async def generate(self, request: GenerationRequest) -> Any:
            async for chunk in self._engine.generate(request):
                yield chunk
                raise asyncio.CancelledError

    engine = await start_engine({"completion": ANSWER, "tokens_per_chunk": 4})
    run = await gateway(Interrupted(engine)).start(AnswerSpec(PLAN, Told(), "r"))
    await settled(run)
    assert kinds(run)[-1] == "failed"
    assert isinstance(run.error, ServerFailed)
