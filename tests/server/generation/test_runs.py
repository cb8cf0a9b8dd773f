import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from server.errors import InvalidRequest, ServerFailed
from server.generation.runs import Emit, Run, Runs, Show, WireEvent
from tests.waiting import settle


def events(*numbers: int) -> list[WireEvent]:
    return [{"n": number} for number in numbers]


class Source:
    """A producer whose events and end the test controls."""

    def __init__(self) -> None:
        self.cancelled = False
        self._queue: asyncio.Queue[Sequence[WireEvent] | Exception | None] = asyncio.Queue()

    async def __call__(self, emit: Emit) -> None:
        try:
            while (item := await self._queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                await emit(item)
        except asyncio.CancelledError:
            self.cancelled = True
            await emit(events(-1))
            raise

    def say(self, *numbers: int) -> None:
        self._queue.put_nowait(events(*numbers))

    def fail(self, error: Exception) -> None:
        self._queue.put_nowait(error)

    def end(self) -> None:
        self._queue.put_nowait(None)


class SlowJournal:
    """A journal that writes when the test allows it."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.go = asyncio.Event()

    async def begin(self) -> None:
        raise AssertionError("who starts a run has begun its journal")

    async def write(self, batch: Sequence[WireEvent], show: Show) -> None:
        await self.go.wait()
        self.written += [event["n"] for event in batch]
        show(batch)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def journal() -> SlowJournal:
    """A journal that writes at once."""
    journal = SlowJournal()
    journal.go.set()
    return journal


async def read(run: Run) -> list[int]:
    return [event["n"] async for batch in run.follow() for event in batch]


async def first(follower: AsyncGenerator[Sequence[WireEvent], None]) -> list[int]:
    return [event["n"] for event in await anext(follower)]


async def test_a_follower_gets_each_event_as_it_comes(source: Source) -> None:
    run = Run(source)
    async with aclosing(run.follow()) as follower:
        for number in range(3):
            source.say(number)
            assert await first(follower) == [number]
        source.end()
        with pytest.raises(StopAsyncIteration):
            await anext(follower)
    assert run.done


async def test_a_slow_follower_gets_what_has_piled_up_at_once(source: Source) -> None:
    run = Run(source)
    async with aclosing(run.follow()) as follower:
        source.say(0)
        assert await first(follower) == [0]
        source.say(1)
        source.say(2, 3)
        await settle()
        assert await first(follower) == [1, 2, 3]


@pytest.mark.parametrize(("start", "rest"), [(0, [0, 1, 2]), (2, [2]), (3, []), (9, [])])
async def test_a_reader_may_start_anywhere_after_the_end(
    source: Source, start: int, rest: list[int]
) -> None:
    run = Run(source)
    source.say(0, 1, 2)
    source.end()
    await run.wait()
    with run.read(lambda: None, start) as reader:
        assert list(reader.take()) == events(*rest)


async def test_a_reader_may_start_at_an_event_that_is_to_come(source: Source) -> None:
    run = Run(source)
    with run.read(lambda: None, 2) as reader:
        source.say(0, 1)
        await settle()
        assert list(reader.take()) == []
        source.say(2, 3)
        await settle()
        assert reader.take() == events(2, 3)


async def test_the_last_follower_to_leave_cancels_a_foreground_run(
    source: Source, journal: SlowJournal
) -> None:
    run = Run(source, journal=journal)
    source.say(0)
    one, other = run.follow(), run.follow()
    await anext(one)
    await anext(other)
    await one.aclose()
    await settle()
    assert not run.done
    await other.aclose()
    await run.wait()
    assert source.cancelled
    assert run.events == events(0, -1)


async def test_nobody_need_follow_a_background_run(source: Source, journal: SlowJournal) -> None:
    run = Run(source, journal=journal, background=True)
    source.say(0)
    async with aclosing(run.follow()) as follower:
        await anext(follower)
    source.say(1)
    source.end()
    await run.wait()
    assert not source.cancelled
    assert await read(run) == [0, 1]


async def test_a_run_that_nobody_has_followed_yet_goes_on(source: Source) -> None:
    run = Run(source)
    source.say(0)
    source.end()
    await run.wait()
    assert run.events == events(0)


async def test_followers_of_a_cancelled_run_get_its_last_events(source: Source) -> None:
    run = Run(source)
    follower = asyncio.create_task(read(run))
    source.say(0)
    await settle()
    run.cancel()
    assert await follower == [0, -1]
    assert run.error is None


async def test_a_run_that_is_cancelled_before_it_began_still_emits_its_last_events(
    source: Source,
) -> None:
    run = Run(source)
    follower = asyncio.create_task(read(run))
    run.cancel()
    assert await follower == [-1]


async def test_the_last_events_of_a_cancelled_run_are_not_lost() -> None:
    may_emit = asyncio.Event()

    async def produce(emit: Emit) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_emit.wait()
            await emit(events(0))

    run = Run(produce)
    await settle()
    run.cancel()
    await settle()
    run.cancel()
    may_emit.set()
    assert await read(run) == [0]


async def test_a_run_that_is_cancelled_twice_has_the_first_reason(source: Source) -> None:
    run = Run(source)
    first = InvalidRequest("First.")
    run.cancel(first)
    run.cancel(InvalidRequest("Second."))
    await run.wait()
    assert run.reason is first


async def test_cancelling_a_run_that_is_done_changes_nothing(source: Source) -> None:
    run = Run(source)
    source.end()
    await run.wait()
    run.cancel()
    assert (await read(run), run.error) == ([], None)


async def test_an_api_error_ends_the_run(source: Source) -> None:
    run = Run(source)
    error = InvalidRequest("No.")
    source.say(0)
    source.fail(error)
    assert await read(run) == [0]
    assert run.error is error


async def test_any_other_error_is_logged_and_the_servers_fault(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(source)
    source.fail(ValueError("a bug"))
    assert await read(run) == []
    assert isinstance(run.error, ServerFailed)
    assert "a bug" not in run.error.message
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


async def test_a_run_that_is_done_calls_back(source: Source) -> None:
    called: list[str] = []
    run = Run(source)
    run.when_done(lambda: called.append("early"))
    source.end()
    await run.wait()
    run.when_done(lambda: called.append("late"))
    await settle()
    assert called == ["early", "late"]


async def test_nobody_sees_an_event_before_the_journal_has_it(source: Source) -> None:
    journal = SlowJournal()
    run = Run(source, journal=journal)
    follower = asyncio.create_task(read(run))
    source.say(0, 1)
    await settle()
    assert run.events == []
    journal.go.set()
    source.end()
    assert await follower == journal.written == [0, 1]


async def test_what_the_journal_is_writing_is_not_torn_off_by_a_cancel(source: Source) -> None:
    journal = SlowJournal()
    run = Run(source, journal=journal)
    follower = asyncio.create_task(read(run))
    source.say(0)
    await settle()
    run.cancel()
    await settle()
    assert not run.done
    journal.go.set()
    assert await follower == journal.written == [0, -1]


async def test_what_the_journal_cannot_write_is_not_shown_but_why_is() -> None:
    class Broken(SlowJournal):
        async def write(self, batch: Sequence[WireEvent], show: Show) -> None:
            if self.go.is_set():
                show(batch)
                return
            self.go.set()
            raise OSError("the disk is full")

    async def produce(emit: Emit) -> None:
        try:
            await emit(events(0))
        except OSError:
            await emit(events(-1))
            raise

    run = Run(produce, journal=Broken())
    assert await read(run) == [-1]
    assert isinstance(run.error, ServerFailed)


async def test_a_journal_may_show_events_when_it_likes(source: Source) -> None:
    class Holding(SlowJournal):
        async def write(self, batch: Sequence[WireEvent], show: Show) -> None:
            self.show = show

    journal = Holding()
    run = Run(source, journal=journal)
    source.say(0)
    await settle()
    assert run.events == []
    follower = asyncio.create_task(read(run))
    journal.show(events(7))
    source.end()
    assert await follower == [7]


async def test_a_late_reader_of_a_journaled_run_gets_what_an_early_one_has_taken(
    source: Source, journal: SlowJournal
) -> None:
    run = Run(source, journal=journal)
    with run.read(lambda: None) as early:
        source.say(0, 1)
        await settle()
        assert early.take() == events(0, 1)
        with run.read(lambda: None) as late:
            assert (late.is_late, late.take()) == (False, events(0, 1))


async def test_a_journaled_run_that_is_done_drops_what_its_readers_have_taken(
    source: Source, journal: SlowJournal
) -> None:
    run = Run(source, journal=journal)
    with run.read(lambda: None) as reader:
        source.say(0, 1)
        source.end()
        await run.wait()
        await settle()
        assert run.events == events(0, 1)
        assert reader.take() == events(0, 1)
        assert run.events == []


async def test_a_reader_is_woken_in_the_step_that_emits() -> None:
    taken: list[Sequence[WireEvent]] = []

    async def produce(emit: Emit) -> None:
        for number in range(2):
            await emit(events(number))
            assert taken == [events(each) for each in range(number + 1)]

    run = Run(produce)
    with run.read(lambda: taken.append(reader.take())) as reader:
        await run.wait()
    assert run.error is None


async def test_a_reader_is_woken_when_the_run_is_done(source: Source) -> None:
    woken = asyncio.Event()
    run = Run(source)
    with run.read(woken.set) as reader:
        source.end()
        await woken.wait()
        assert run.done
        assert list(reader.take()) == []


async def test_a_reader_is_woken_no_more_once_it_has_left(source: Source) -> None:
    woken: list[bool] = []
    run = Run(source, background=True)
    with run.read(lambda: woken.append(True)):
        pass
    source.say(0)
    source.end()
    await run.wait()
    await settle()
    assert woken == []


@pytest.mark.parametrize(("start", "taken"), [(0, events(0, 1)), (1, events(1)), (2, [])])
async def test_a_reader_takes_what_has_come_since_the_last_time(
    source: Source, start: int, taken: list[WireEvent]
) -> None:
    run = Run(source)
    source.say(0, 1)
    await settle()
    with run.read(lambda: None, start) as reader:
        assert reader.take() == taken
        assert list(reader.take()) == []
        source.say(2)
        await settle()
        assert reader.take() == events(2)


@pytest.mark.parametrize("is_journaled", [False, True])
async def test_a_reader_takes_no_more_at_once_than_it_wants(
    source: Source, journal: SlowJournal, is_journaled: bool
) -> None:
    run = Run(source, journal=journal if is_journaled else None)
    with run.read(lambda: None) as reader:
        source.say(0, 1, 2, 3, 4)
        await settle()
        taken = []
        for most in (2, 2, 2, 2):
            taken.append((reader.waiting, [*reader.take(most)]))
        assert taken == [(5, events(0, 1)), (3, events(2, 3)), (1, events(4)), (0, [])]


async def test_an_event_is_kept_until_all_readers_have_taken_it(source: Source) -> None:
    run = Run(source)
    with (
        run.read(lambda: None) as one,
        run.read(lambda: None) as other,
    ):
        source.say(0, 1)
        await settle()
        assert one.take() == events(0, 1)
        assert other.take(1) == events(0)
        assert run.events == events(1)
        assert other.take() == events(1)
    assert run.events == []


async def test_a_run_keeps_nothing_of_what_its_reader_takes(source: Source) -> None:
    run = Run(source)
    with run.read(lambda: None) as reader:
        for number in range(2):
            source.say(number)
            await settle()
            assert reader.take() == events(number)
            assert run.events == []
            assert reader.position == number + 1
        with run.read(lambda: None) as late:
            assert late.is_late


async def test_a_reader_that_starts_later_drops_what_was_before(source: Source) -> None:
    run = Run(source)
    source.say(0, 1)
    await settle()
    with run.read(lambda: None, 1) as reader:
        assert reader.take() == events(1)
        source.say(2)
        await settle()
        assert reader.take() == events(2)
    assert run.events == []


async def test_a_reader_that_skips_the_rest_keeps_nothing_of_it(source: Source) -> None:
    run = Run(source)
    with run.read(lambda: None) as reader:
        source.say(0)
        await settle()
        reader.skip()
        assert (reader.waiting, [*reader.take()], run.events) == (0, [], [])


async def test_a_reader_that_skips_the_rest_leaves_it_to_those_who_may_join(
    source: Source, journal: SlowJournal
) -> None:
    run = Run(source, journal=journal)
    with run.read(lambda: None) as reader:
        source.say(0)
        await settle()
        reader.skip()
        assert run.events == events(0)
        source.end()
        await run.wait()
        await settle()
        assert run.events == []


@pytest.mark.parametrize("ended", [False, True])
async def test_a_run_that_failed_has_no_reference_to_its_producer(ended: bool) -> None:
    """Without a garbage collection, as long as the run is journaled and when it is not."""

    class Failing:
        async def __call__(self, emit: Emit) -> None:
            try:
                await asyncio.sleep(60 if ended else 0)
                raise ValueError
            except (ValueError, asyncio.CancelledError) as error:
                raise InvalidRequest("No.") from error

    gc.disable()
    try:
        producer = Failing()
        alive = weakref.ref(producer)
        run = Run(producer)
        del producer
        await settle()
        if ended:
            run.cancel(InvalidRequest("No."))
        await run.wait()
        await settle()
        assert isinstance(run.error, InvalidRequest)
        assert alive() is None
        alive_run = weakref.ref(run)
        del run
        assert alive_run() is None
    finally:
        gc.enable()


async def test_a_reader_that_breaks_leaves(source: Source) -> None:
    run = Run(source)
    with pytest.raises(ValueError, match="no"), run.read(lambda: None):
        raise ValueError("no")
    await run.wait()


async def test_runs_are_found_by_their_requests_while_they_last(source: Source) -> None:
    runs = Runs()
    run = runs.start(source, "r")
    assert runs.find("r") is run
    source.end()
    await run.wait()
    await settle()
    assert runs.find("r") is None


class Name(str):
    """A request id that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str(self) == str(other)


async def test_a_run_is_found_without_a_look_at_the_others() -> None:
    runs = Runs()
    sources = [Source() for _ in range(100)]
    for number, source in enumerate(sources):
        runs.start(source, Name(number))
    assert runs.reason("99") is None
    assert runs.find("99") is not None
    assert Name.compared < 10
    for source in sources:
        source.end()
    await runs.wait()


async def test_only_runs_with_a_journal_are_reported_as_journaled() -> None:
    runs = Runs()
    sources = [Source(), Source()]
    journaled = runs.start(sources[0], "journaled", journal=SlowJournal())
    other = runs.start(sources[1], "other")
    assert runs.journaled_ids == ["journaled"]
    for source in sources:
        source.end()
    await asyncio.gather(journaled.wait(), other.wait())
    await settle()
    assert runs.journaled_ids == []


async def test_a_wait_for_journaled_runs_ends_when_there_is_one() -> None:
    runs = Runs()
    sources = [Source() for _ in range(3)]
    runs.start(sources[0], "not journaled")
    waiting = asyncio.create_task(runs.wait_for_journaled())
    await settle()
    assert not waiting.done()
    journaled = [
        runs.start(source, name, journal=SlowJournal())
        for name, source in zip("ab", sources[1:], strict=True)
    ]
    await waiting
    sources[1].end()
    await journaled[0].wait()
    await settle()
    await runs.wait_for_journaled()
    sources[2].end()
    await journaled[1].wait()
    await settle()
    waiting = asyncio.create_task(runs.wait_for_journaled())
    await settle()
    assert not waiting.done()
    waiting.cancel()
    await runs.close()


@pytest.mark.parametrize("background", [False, True])
async def test_closing_cancels_what_runs_and_waits_for_it(background: bool) -> None:
    runs = Runs()
    sources = [Source() for _ in range(3)]
    started = [
        runs.start(source, str(number), background=background)
        for number, source in enumerate(sources)
    ]
    sources[0].end()
    await settle()
    await runs.close()
    assert [run.done for run in started] == [True] * 3
    assert [source.cancelled for source in sources] == [False, True, True]


async def test_a_run_that_starts_after_all_were_cancelled_is_cancelled_too(source: Source) -> None:
    runs = Runs()
    runs.cancel()
    run = runs.start(source, "late", background=True)
    await settle()
    assert run.done
    assert await read(run) == [-1]


async def test_closing_without_runs_returns() -> None:
    await Runs().close()
