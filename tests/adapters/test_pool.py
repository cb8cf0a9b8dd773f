import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from adapters.base import Backend, BackendInfo, GenerationChunk, GenerationRequest
from adapters.errors import (
    BackendError,
    BackendFailed,
    ContextTooLong,
    EngineFault,
    GenerationFailed,
    InvalidGrammar,
    Lost,
    Mismatch,
    NotReady,
    Overloaded,
    Rejected,
    Unreached,
    Unsupported,
)
from adapters.pool import Pause, Pool
from tests.adapters.sampling import run
from tests.waiting import until

OFTEN = 0.001
NEVER = 3600.0
LAST = GenerationChunk((1,), finish_reason="stop")


class Engine:
    """An engine whose faults are chosen. Its properties are those at its last description.

    fault, fault_after: of requests, before and after the first chunk. ill: of health checks and of
    descriptions, silent: of descriptions alone. asked: the requests that reached it, in order.
    """

    def __init__(self, context_length: int = 100, features: frozenset[str] = frozenset()) -> None:
        self.context_length = context_length
        self.features = features
        self.max_requests: int | None = None
        self.chunks = [LAST]
        self.fault: BackendError | None = None
        self.fault_after: BackendError | None = None
        self.ill: Exception | None = None
        self.silent: BackendFailed | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[str] = []
        self.checked = asyncio.Event()
        self.starts = 0
        self.stops = 0
        self._info: BackendInfo | None = None

    @property
    def info(self) -> BackendInfo:
        assert self._info is not None
        return self._info

    async def start(self) -> None:
        self.starts += 1
        if (fault := self.ill or self.silent) is not None:
            raise fault
        self._info = BackendInfo(
            "one", "m", self.context_length, 10, self.features, max_requests=self.max_requests
        )

    async def stop(self) -> None:
        self.stops += 1

    async def check(self) -> None:
        self.checked.set()
        if self.ill is not None:
            raise self.ill

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.asked.append(request.request_id)
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        for chunk in self.chunks:
            yield chunk
            if self.fault_after is not None:
                raise self.fault_after


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Paused:
    """Pauses that are over at once. seconds: how long each should have been; then: what they do."""

    def __init__(self, then: Callable[[], Awaitable[object]] | None = None) -> None:
        self.seconds: list[float] = []
        self._then = then

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)
        if self._then is not None:
            await self._then()


@asynccontextmanager
async def pooled(
    *engines: Engine,
    health_seconds: float = NEVER,
    clock: Callable[[], float] | None = None,
    pause: Pause | None = None,
) -> AsyncIterator[Pool]:
    named: dict[str, Backend] = {
        f"http://{letter}": engine for letter, engine in zip("abcd", engines, strict=False)
    }
    pool = Pool("pool", named, health_seconds, clock or Clock(), pause or Paused())
    await pool.start()
    yield pool
    await pool.stop()


def ask(request_id: str = "r", affinity: str | None = None, **fields: Any) -> GenerationRequest:
    return GenerationRequest(request_id, (1,), 5, frozenset({1}), affinity=affinity, **fields)


async def open_circuit(pool: Pool, engine: Engine) -> None:
    """Let the engine fail three requests in a row."""
    engine.fault = BackendFailed("500")
    member = pool._members[list(pool._engines.values()).index(engine)]
    for _ in range(3):
        chunks = pool._generate_on(member, ask("bad"), {}, [])
        with pytest.raises(BackendFailed):
            await anext(chunks)
    assert not member.available
    engine.fault = None


# What the pool is


async def test_it_promises_what_every_engine_keeps() -> None:
    first = Engine(100, frozenset({"seed", "top_k"}))
    async with pooled(first, Engine(80, frozenset({"seed"}))) as pool:
        assert pool.info == BackendInfo("pool", "m", 80, 10, frozenset({"seed"}))


async def test_it_starts_with_the_engines_that_are_there_and_takes_in_the_others_later() -> None:
    late = Engine()
    late.ill = BackendFailed("still loading")
    async with pooled(Engine(), late) as pool:
        late.ill = None
        await pool.probe()
        await pool.probe()
        assert late.starts == 2
        await asyncio.gather(*(run(pool, ask(str(n))) for n in range(20)))
        assert late.asked


async def test_it_does_not_start_without_an_engine() -> None:
    engines = [Engine(), Engine()]
    engines[0].ill, engines[1].ill = BackendFailed("no route"), BackendFailed("refused")
    pool = Pool("pool", dict(zip("ab", engines, strict=True)), NEVER)
    with pytest.raises(BackendFailed, match="no route; refused"):
        await pool.start()
    await pool.stop()
    assert [engine.stops for engine in engines] == [1, 1]


@pytest.mark.parametrize(("counts", "together"), [((8, 6), 12), ((8, None), None)])
async def test_engines_compute_as_many_requests_as_all_of_them_together(
    counts: tuple[int | None, ...], together: int | None
) -> None:
    engines = [Engine(), Engine()]
    for engine, count in zip(engines, counts, strict=True):
        engine.max_requests = count
    async with pooled(*engines) as pool:
        assert pool.info.max_requests == together


async def test_an_engine_that_is_away_at_the_start_counts_as_the_smallest_one() -> None:
    present, away = Engine(), Engine()
    present.max_requests, away.ill = 4, BackendFailed("away")
    async with pooled(present, away) as pool:
        assert pool.info.max_requests == 8


async def test_an_engine_that_joins_with_less_lowers_what_the_pool_promises() -> None:
    late = Engine(60, frozenset({"seed"}))
    late.ill = BackendFailed("still loading")
    async with pooled(Engine(100, frozenset({"seed", "top_k"})), late) as pool:
        late.ill = None
        await pool.probe()
        assert pool.info == BackendInfo("pool", "m", 60, 10, frozenset({"seed"}))


async def test_an_engine_that_was_restarted_is_described_again() -> None:
    engine = Engine(100)
    async with pooled(engine) as pool:
        engine.ill = BackendFailed("gone")
        await pool.probe()
        engine.ill, engine.context_length = None, 80
        await pool.probe()
        await pool.probe()
        assert pool.info.context_length == 80
    assert engine.starts == 2


@pytest.mark.parametrize(
    "fault",
    [Unreached("ReadError"), NotReady("loads"), Rejected("400"), InvalidGrammar("400")],
    ids=repr,
)
async def test_an_engine_that_restarts_between_two_checks_is_described_again(
    fault: BackendError,
) -> None:
    engine = Engine(100)
    async with pooled(engine) as pool:
        engine.fault = fault
        with pytest.raises(type(fault)):
            await run(pool, ask())
        engine.fault, engine.context_length = None, 80
        await pool.probe()
        await pool.probe()
        assert pool.info.context_length == 80
    assert engine.starts == 2


async def miss_a_check_and_be_busy(pool: Pool, engine: Engine) -> None:
    """A failed health check, then a passed one of an engine that does not describe itself."""
    engine.ill = BackendFailed("timed out")
    await pool.probe()
    engine.ill, engine.silent = None, BackendFailed("does not say what it serves")
    await pool.probe()


async def test_an_engine_that_is_too_busy_to_describe_itself_keeps_its_properties() -> None:
    engine = Engine(100)
    async with pooled(engine) as pool:
        await miss_a_check_and_be_busy(pool, engine)
        await pool.check()
        assert pool._members[0].available
        assert pool.info.context_length == 100


async def test_an_engine_that_was_too_busy_to_describe_itself_is_asked_again() -> None:
    engine = Engine(100)
    async with pooled(engine) as pool:
        await miss_a_check_and_be_busy(pool, engine)
        engine.silent, engine.context_length = None, 80
        await pool.probe()
        assert pool.info.context_length == 80


async def test_a_mismatch_while_an_engine_describes_itself_is_not_forgotten() -> None:
    class Changing(Engine):
        """Fails a request while it describes itself."""

        async def start(self) -> None:
            await super().start()
            if self.fault is not None:
                with pytest.raises(Mismatch):
                    await run(pool, ask())
                self.fault = None

    engine = Changing()
    async with pooled(engine) as pool:
        engine.ill = BackendFailed("gone")
        await pool.probe()
        engine.ill, engine.fault = None, Mismatch("answered 404")
        await pool.probe()
        await pool.probe()
    assert engine.starts == 3


async def test_an_engine_that_drains_is_not_used_though_it_says_what_it_serves() -> None:
    class Draining(Engine):
        async def start(self) -> None:
            ill, self.ill = self.ill, None
            await super().start()
            self.ill = ill

    engine = Draining()
    async with pooled(engine) as pool:
        engine.ill = BackendFailed("answered 503")
        await pool.probe()
        await pool.probe()
        with pytest.raises(BackendFailed):
            await pool.check()


async def test_a_feature_that_was_not_there_at_the_start_is_not_added() -> None:
    """The server decides at its start whether it uses grammars."""
    engine = Engine(100, frozenset({"seed"}))
    async with pooled(engine) as pool:
        for features in ({"top_k"}, {"seed", "grammar"}):
            engine.ill = BackendFailed("gone")
            await pool.probe()
            engine.ill, engine.features = None, frozenset(features)
            await pool.probe()
        assert pool.info.features == {"seed"}


async def test_it_has_no_info_before_it_runs() -> None:
    with pytest.raises(BackendFailed, match="has not been started"):
        _ = Pool("pool", {"a": Engine()}, NEVER).info


async def test_stopping_stops_every_engine_and_refuses_what_comes_then() -> None:
    engines = [Engine(), Engine()]
    async with pooled(*engines) as pool:
        pass
    await pool.stop()
    assert [engine.stops for engine in engines] == [1, 1]
    with pytest.raises(BackendFailed, match="is not running"):
        await run(pool, ask())
    with pytest.raises(BackendFailed):
        await pool.check()


async def test_an_engine_is_stopped_when_its_health_check_has_ended() -> None:
    ended: list[str] = []

    class Slow(Engine):
        async def check(self) -> None:
            self.checked.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("check")

        async def stop(self) -> None:
            ended.append("engine")

    engine = Slow()
    async with pooled(engine, health_seconds=OFTEN):
        await engine.checked.wait()
    assert ended == ["check", "engine"]


async def test_it_is_healthy_while_one_engine_is() -> None:
    engines = [Engine(), Engine()]
    async with pooled(*engines) as pool:
        engines[0].ill = BackendFailed("gone")
        await pool.probe()
        await pool.check()
        engines[1].ill = BackendFailed("gone")
        await pool.probe()
        with pytest.raises(BackendFailed, match="no engine of the pool backend can serve"):
            await pool.check()


# Where a request goes


async def test_a_conversation_returns_to_its_engine() -> None:
    engines = [Engine(), Engine(), Engine()]
    async with pooled(*engines) as pool:
        for turn in range(9):
            await run(pool, ask(str(turn), "conversation"))
    assert sorted(len(engine.asked) for engine in engines) == [0, 0, 9]


async def test_two_gateways_send_a_conversation_to_the_same_engine() -> None:
    engines = [Engine(), Engine(), Engine()]
    async with pooled(*engines) as one, pooled(*engines) as other:
        for name in "pqrstuvwxyz":
            asked = [len(engine.asked) for engine in engines]
            await run(one, ask(affinity=name))
            await run(other, ask(affinity=name))
            grown = [
                len(engine.asked) - before for engine, before in zip(engines, asked, strict=True)
            ]
            assert sorted(grown) == [0, 0, 2]


async def test_conversations_are_spread() -> None:
    engines = [Engine(), Engine()]
    async with pooled(*engines) as pool:
        for number in range(64):
            await run(pool, ask(affinity=str(number)))
    assert min(len(engine.asked) for engine in engines) > 16


async def test_when_an_engine_goes_only_its_conversations_move() -> None:
    engines = [Engine(), Engine(), Engine()]
    async with pooled(*engines) as pool:
        for name in map(str, range(30)):
            await run(pool, ask(name, name))
        before = [set(engine.asked) for engine in engines]
        engines[0].ill = BackendFailed("gone")
        await pool.probe()
        for name in map(str, range(30)):
            await run(pool, ask(name, name))
    assert before[1] <= set(engines[1].asked[len(before[1]) :])
    assert before[2] <= set(engines[2].asked[len(before[2]) :])


async def test_without_affinity_the_least_busy_engine_is_taken() -> None:
    engines = [Engine(), Engine(), Engine()]
    for engine in engines:
        engine.gate.clear()
    async with pooled(*engines) as pool:
        tasks = [asyncio.create_task(run(pool, ask(str(n)))) for n in range(12)]
        await until(lambda: sum(len(engine.asked) for engine in engines) == 12)
        assert [len(engine.asked) for engine in engines] == [4, 4, 4]
        for engine in engines:
            engine.gate.set()
        await asyncio.gather(*tasks)


async def test_an_engine_far_busier_than_the_rest_loses_its_conversations() -> None:
    engines = [Engine(), Engine()]
    for engine in engines:
        engine.gate.clear()
    async with pooled(*engines) as pool:
        tasks = [asyncio.create_task(run(pool, ask(str(n), "same"))) for n in range(21)]
        await until(lambda: sum(len(engine.asked) for engine in engines) == 21)
        assert sorted(len(engine.asked) for engine in engines) == [6, 15]
        for engine in engines:
            engine.gate.set()
        await asyncio.gather(*tasks)


async def test_an_engine_that_drains_gets_nothing_new_and_finishes_what_it_has() -> None:
    draining, other = Engine(), Engine()
    draining.chunks = [GenerationChunk((2,)), LAST]
    other.chunks = [GenerationChunk((2,)), LAST]
    async with pooled(draining, other) as pool:
        running = [pool.generate(ask(str(n))) for n in range(8)]
        for generator in running:
            await anext(generator)
        had = list(draining.asked)
        assert had
        draining.ill = BackendFailed("answered 503")
        await pool.probe()
        for number in range(8):
            await run(pool, ask(f"new {number}"))
        assert [[chunk async for chunk in generator] for generator in running] == [[LAST]] * 8
        assert draining.asked == had


# When an engine fails


@pytest.mark.parametrize("fault", [BackendFailed("reset"), Overloaded("full")])
async def test_a_failure_before_the_first_token_moves_the_request(fault: BackendError) -> None:
    engines = [Engine(), Engine()]
    async with pooled(*engines) as pool:
        engines[0].fault = fault
        for number in range(10):
            assert await run(pool, ask(str(number))) == [LAST]
    assert len(engines[1].asked) == 10


@pytest.mark.parametrize("fault", [BackendFailed("reset"), Unreached("reset")])
async def test_a_failure_after_a_token_is_the_requests(fault: BackendFailed) -> None:
    engines = [Engine(), Engine()]
    for engine in engines:
        engine.chunks = [GenerationChunk((2,)), LAST]
        engine.fault_after = fault
    async with pooled(*engines) as pool:
        generator = pool.generate(ask())
        assert await anext(generator) == GenerationChunk((2,))
        with pytest.raises(BackendFailed, match="reset"):
            await anext(generator)
    assert sorted(len(engine.asked) for engine in engines) == [0, 1]


UNSUITED = [ContextTooLong(1, 1), Unsupported("grammar", "one")]


@pytest.mark.parametrize("fault", UNSUITED)
async def test_what_no_engine_takes_is_tried_once_on_each(fault: BackendError) -> None:
    engines, pause = [Engine(), Engine()], Paused()
    async with pooled(*engines, pause=pause) as pool:
        for engine in engines:
            engine.fault = fault
        with pytest.raises(type(fault)):
            await run(pool, ask())
    assert [len(engine.asked) for engine in engines] == [1, 1]
    assert pause.seconds == []


@pytest.mark.parametrize("fault", UNSUITED)
async def test_what_one_engine_does_not_take_goes_to_another(fault: BackendError) -> None:
    unsuited, other = Engine(), Engine()
    unsuited.fault = fault
    async with pooled(unsuited, other) as pool:
        for number in range(8):
            assert await run(pool, ask(str(number))) == [LAST]
    assert unsuited.asked


@pytest.mark.parametrize("is_first_unsuited", [True, False])
async def test_a_request_that_another_engine_might_take_is_not_at_fault(
    is_first_unsuited: bool,
) -> None:
    engines = [Engine(), Engine()]
    faults: list[BackendError] = [ContextTooLong(1, 1), EngineFault("500")]
    async with pooled(*engines) as pool:
        for engine, fault in zip(engines, faults[:: 1 if is_first_unsuited else -1], strict=True):
            engine.fault = fault
        with pytest.raises(EngineFault, match="500"):
            await run(pool, ask())


@pytest.mark.parametrize("fault", [*UNSUITED, Overloaded("full")])
async def test_an_engine_that_does_not_take_the_rest_of_an_answer_has_failed(
    fault: BackendError,
) -> None:
    engine = Engine()
    engine.chunks, engine.fault_after = [GenerationChunk((2,)), LAST], fault
    async with pooled(engine) as pool:
        chunks = pool.generate(ask())
        await anext(chunks)
        with pytest.raises(EngineFault, match="does not take the rest"):
            await anext(chunks)


async def test_a_request_that_fails_on_all_engines_counts_as_one_failure_of_each() -> None:
    engines = [Engine(), Engine()]
    async with pooled(*engines) as pool:
        for engine in engines:
            engine.fault = Unreached("reset")
        with pytest.raises(Unreached):
            await run(pool, ask("bad"))
        assert [len(engine.asked) for engine in engines] == [3, 3]
        assert all(member.available for member in pool._members)


async def test_requests_are_taken_while_engines_that_fail_them_are_healthy() -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        await open_circuit(pool, engine)
        await pool.check()
        assert await run(pool, ask("good")) == [LAST]


@pytest.mark.parametrize("fault", [EngineFault("answered 500"), Lost("ReadError")], ids=repr)
async def test_a_request_that_two_engines_failed_reaches_no_other(fault: EngineFault) -> None:
    engines = [Engine() for _ in range(4)]
    async with pooled(*engines) as pool:
        for engine in engines:
            engine.fault = fault
        with pytest.raises(type(fault)):
            await run(pool, ask("bad"))
    assert sum(len(engine.asked) for engine in engines) == 2


async def test_engines_that_were_not_reached_or_expect_another_model_do_not_count() -> None:
    engines = [Engine() for _ in range(4)]
    faults = [EngineFault("500"), Unreached("ConnectTimeout"), Mismatch("404"), Overloaded("full")]
    async with pooled(*engines) as pool:
        for engine, fault in zip(engines, faults, strict=True):
            engine.fault = fault
        with pytest.raises(BackendError):
            await run(pool, ask("bad"))
    assert all(engine.asked for engine in engines)


async def test_an_engine_that_passes_a_health_check_is_used_again() -> None:
    failing, well = Engine(), Engine()
    async with pooled(failing, well) as pool:
        await open_circuit(pool, failing)
        await pool.probe()
        assert pool._members[0].available


@pytest.mark.parametrize(("grammar", "available"), [('start: "a"', True), (None, False)])
async def test_generations_that_fail_under_grammars_do_not_open_the_circuit(
    grammar: str | None, available: bool
) -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        engine.fault = GenerationFailed("error")
        for _ in range(3):
            with pytest.raises(GenerationFailed):
                await run(pool, ask(grammar=grammar))
        assert pool._members[0].available is available


async def test_a_health_check_that_began_before_the_failures_says_nothing_of_them() -> None:
    class Slow(Engine):
        async def check(self) -> None:
            await super().check()
            await passed.wait()

    passed = asyncio.Event()
    failing, well = Slow(), Engine()
    async with pooled(failing, well) as pool:
        probe = asyncio.create_task(pool.probe())
        await failing.checked.wait()
        await open_circuit(pool, failing)
        passed.set()
        await probe
        assert not pool._members[0].available


async def test_an_engine_that_serves_something_else_is_passed_over_and_described_again() -> None:
    engine, other = Engine(), Engine()
    async with pooled(engine, other) as pool:
        engine.fault = Mismatch("answered 404")
        for number in range(20):
            assert await run(pool, ask(str(number))) == [LAST]
        assert len(engine.asked) > 3
        assert pool._members[0].available
        await pool.probe()
    assert (engine.starts, other.starts) == (2, 1)


async def test_when_all_fail_the_last_failure_is_raised() -> None:
    engines = [Engine(), Engine()]
    async with pooled(*engines) as pool:
        for engine in engines:
            engine.fault = Overloaded("full", retry_after=9)
        with pytest.raises(Overloaded) as refusal:
            await run(pool, ask())
    assert refusal.value.retry_after == 9
    assert [len(engine.asked) for engine in engines] == [1, 1]


async def test_an_engine_that_ends_without_a_token_has_failed() -> None:
    engine = Engine()
    engine.chunks = []
    async with pooled(engine) as pool:
        with pytest.raises(BackendFailed, match="ended without a token"):
            await run(pool, ask())


async def test_an_engine_that_keeps_failing_is_left_alone_for_a_while() -> None:
    clock = Clock()
    failing, well = Engine(), Engine()
    async with pooled(failing, well, clock=clock) as pool:
        failing.fault = BackendFailed("500")
        for number in range(40):
            await run(pool, ask(str(number)))
        assert len(failing.asked) == 3
        clock.now += 11
        for number in range(40):
            await run(pool, ask(str(number)))
        assert len(failing.asked) == 4
        failing.fault = None
        clock.now += 11
        for number in range(40):
            await run(pool, ask(str(number)))
        assert len(failing.asked) > 10


async def test_an_engine_that_keeps_failing_after_a_token_is_left_alone() -> None:
    failing, well = Engine(), Engine()
    failing.chunks = [GenerationChunk((2,)), LAST]
    failing.fault_after = BackendFailed("reset")
    async with pooled(failing, well) as pool:
        for number in range(40):
            with suppress(BackendFailed):
                await run(pool, ask(str(number)))
    assert len(failing.asked) == 3


async def test_failures_are_not_consecutive_with_an_answer_in_between() -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        for _ in range(4):
            engine.fault = BackendFailed("500")
            with pytest.raises(BackendFailed):
                await run(pool, ask())
            engine.fault = None
            await run(pool, ask())
        assert pool._members[0].available


async def test_an_answer_that_is_left_after_a_token_is_no_failure() -> None:
    engine = Engine()
    engine.chunks = [GenerationChunk((2,)), LAST]
    async with pooled(engine) as pool:
        for _ in range(4):
            engine.fault = BackendFailed("500")
            with pytest.raises(BackendFailed):
                await run(pool, ask())
            engine.fault = None
            chunks = pool.generate(ask())
            await anext(chunks)
            await chunks.aclose()
        assert pool._members[0].available


UNDECIDED = [
    *UNSUITED,
    Rejected("400"),
    InvalidGrammar("too complex"),
    Overloaded("full"),
    Mismatch("answered 404"),
]


@pytest.mark.parametrize("fault", UNDECIDED)
async def test_a_request_that_finds_no_failure_leaves_the_turn_to_another(
    fault: BackendError,
) -> None:
    clock, engine = Clock(), Engine()
    async with pooled(engine, clock=clock) as pool:
        await open_circuit(pool, engine)
        clock.now += 11
        engine.fault = fault
        with pytest.raises(type(fault)):
            await run(pool, ask())
        assert pool._members[0].available


async def test_a_client_that_leaves_leaves_the_turn_to_another() -> None:
    clock, engine = Clock(), Engine()
    async with pooled(engine, clock=clock) as pool:
        await open_circuit(pool, engine)
        clock.now += 11
        engine.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: pool._members[0].load == 1)
        assert not pool._members[0].available
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert pool._members[0].available


async def test_an_answer_that_began_before_the_failures_says_nothing_of_them() -> None:
    engine = Engine()
    engine.chunks = [GenerationChunk((2,)), LAST]
    async with pooled(engine) as pool:
        older = pool.generate(ask())
        await anext(older)
        await open_circuit(pool, engine)
        assert await anext(older) == LAST
        with pytest.raises(StopAsyncIteration):
            await anext(older)
        assert not pool._members[0].available


async def test_an_answer_to_a_later_attempt_ends_the_failures() -> None:
    engine = Engine()

    async def mend() -> None:
        engine.fault = None

    async with pooled(engine, pause=Paused(then=mend)) as pool:
        for _ in range(3):
            engine.fault = Unreached("reset")
            assert await run(pool, ask()) == [LAST]
        assert pool._members[0].available


async def test_a_failure_at_the_moment_of_a_cancellation_is_looked_at(
    unhandled: list[dict[str, Any]],
) -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        engine.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(engine.asked))
        engine.fault = BackendFailed("500")
        engine.gate.set()
        await asyncio.sleep(0)  # the engine fails; the request does not know yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    del task
    gc.collect()
    assert not unhandled


async def test_what_an_engine_raises_when_it_is_cancelled_is_looked_at(
    unhandled: list[dict[str, Any]],
) -> None:
    class Failing(Engine):
        async def generate(
            self, request: GenerationRequest
        ) -> AsyncGenerator[GenerationChunk, None]:
            self.asked.append(request.request_id)
            try:
                await asyncio.Event().wait()
            finally:
                raise BackendFailed("the connection cannot be closed")
            yield LAST

    engine = Failing()
    async with pooled(engine) as pool:
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(engine.asked))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    del task
    gc.collect()
    assert not unhandled


@pytest.fixture
async def unhandled() -> list[dict[str, Any]]:
    """What asyncio reports as unhandled while the test runs."""
    reports: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    return reports


async def test_when_every_engine_is_down_one_is_tried_all_the_same() -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        engine.ill = BackendFailed("gone")
        await pool.probe()
        assert await run(pool, ask()) == [LAST]


async def test_requests_that_wait_on_an_engine_that_falls_silent_move() -> None:
    silent, well = Engine(), Engine()
    async with pooled(silent, well) as pool:
        silent.gate.clear()
        tasks = [asyncio.create_task(run(pool, ask(str(n)))) for n in range(8)]
        await until(lambda: len(silent.asked) + len(well.asked) == 8)
        assert silent.asked
        silent.ill = BackendFailed("timed out")
        await pool.probe()
        assert await asyncio.gather(*tasks) == [[LAST]] * 8
    assert len(well.asked) == 8


async def test_requests_wait_on_a_silent_engine_where_there_is_no_other() -> None:
    silent = Engine()
    async with pooled(silent) as pool:
        silent.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(silent.asked))
        silent.ill = BackendFailed("timed out")
        await pool.probe()
        silent.gate.set()
        assert await task == [LAST]


async def test_requests_that_wait_on_a_silent_engine_move_when_another_one_is_back() -> None:
    silent, other = Engine(), Engine()
    async with pooled(silent, other) as pool:
        other.ill = BackendFailed("loading")
        await pool.probe()
        silent.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(silent.asked))
        silent.ill = BackendFailed("timed out")
        await pool.probe()
        assert not other.asked
        other.ill = None
        for _ in range(2):
            await pool.probe()
        assert await asyncio.wait_for(task, 10) == [LAST]
    assert other.asked


@pytest.mark.parametrize("fault", [Overloaded("full"), EngineFault("500"), Unreached("reset")])
async def test_a_request_waits_on_a_silent_engine_where_the_other_one_has_failed_it(
    fault: BackendError,
) -> None:
    slow, other = Engine(), Engine()
    async with pooled(slow, other) as pool:
        slow.ill, other.fault = BackendFailed("timed out"), fault
        await pool.probe()
        slow.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(slow.asked))
        await silence(pool)
        slow.gate.set()
        assert await asyncio.wait_for(task, 10) == [LAST]


async def test_a_request_waits_on_a_silent_engine_in_its_last_attempt() -> None:
    engines = [Engine(), Engine()]

    async def wake() -> None:
        if len(pause.seconds) == 2:
            slow.fault = None
            slow.gate.clear()

    async with pooled(*engines, pause=(pause := Paused(wake))) as pool:
        await run(pool, ask())
        # In each round, the request goes to the first one first.
        other, slow = sorted(engines, key=lambda engine: not engine.asked)
        other.fault = slow.fault = Unreached("reset")
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: len(slow.asked) == 3)
        slow.ill = BackendFailed("timed out")
        await silence(pool)
        slow.gate.set()
        assert await asyncio.wait_for(task, 10) == [LAST]


async def silence(pool: Pool) -> None:
    """Let checks of engines fail, and requests learn of it."""
    for _ in range(3):
        await pool.probe()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_health_is_looked_after_while_it_runs() -> None:
    engine = Engine()
    async with pooled(engine, health_seconds=OFTEN):
        await asyncio.wait_for(engine.checked.wait(), 10)


async def test_closing_a_generator_frees_its_place() -> None:
    engines = [Engine(), Engine()]
    for engine in engines:
        engine.chunks = [GenerationChunk((2,)), LAST]
    async with pooled(*engines) as pool:
        for number in range(20):
            generator = pool.generate(ask(str(number), "same"))
            await anext(generator)
            await generator.aclose()
    assert Counter(len(engine.asked) for engine in engines) == {0: 1, 20: 1}


async def test_cancelling_a_request_that_waits_frees_its_place() -> None:
    engine = Engine()
    engine.gate.clear()
    async with pooled(engine) as pool:
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(engine.asked))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.gate.set()
        assert await run(pool, ask()) == [LAST]


# When engines cannot be reached


async def test_an_engine_that_could_not_be_reached_is_tried_again_after_a_pause() -> None:
    engine = Engine()

    async def recover() -> None:
        engine.fault = None

    async with pooled(engine, pause=Paused(recover)) as pool:
        engine.fault = Unreached("ConnectTimeout")
        assert await run(pool, ask()) == [LAST]
    assert len(engine.asked) == 2


async def test_patience_has_an_end() -> None:
    engine, pause = Engine(), Paused()
    async with pooled(engine, pause=pause) as pool:
        engine.fault = Unreached("ConnectTimeout")
        with pytest.raises(Unreached, match="ConnectTimeout"):
            await run(pool, ask())
    assert len(engine.asked) == 3
    assert pause.seconds == [0.2, 1.0]


async def test_every_engine_is_tried_before_one_is_tried_again() -> None:
    engines = [Engine(), Engine(), Engine()]
    tried: list[list[int]] = []

    async def count() -> None:
        tried.append([len(engine.asked) for engine in engines])

    async with pooled(*engines, pause=Paused(count)) as pool:
        for engine in engines:
            engine.fault = Unreached("ConnectTimeout")
        with pytest.raises(Unreached):
            await run(pool, ask())
    assert tried == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize("fault", [BackendFailed("500"), Overloaded("full")])
async def test_an_engine_that_answered_is_not_tried_again(fault: BackendError) -> None:
    answering, unreached = Engine(), Engine()
    async with pooled(answering, unreached) as pool:
        answering.fault, unreached.fault = fault, Unreached("ConnectTimeout")
        with pytest.raises(Unreached):
            await run(pool, ask())
    assert [len(answering.asked), len(unreached.asked)] == [1, 3]


async def test_nobody_waits_for_engines_that_are_down() -> None:
    engines, pause = [Engine(), Engine()], Paused()
    async with pooled(*engines, pause=pause) as pool:
        for engine in engines:
            engine.ill = engine.fault = Unreached("ConnectError")
        await pool.probe()
        with pytest.raises(Unreached):
            await run(pool, ask())
    assert [len(engine.asked) for engine in engines] == [1, 1]
    assert pause.seconds == []


@pytest.mark.parametrize("unreached", [0, 1, 2])
async def test_what_two_engines_failed_does_not_wait_for_a_third_one(unreached: int) -> None:
    engines, pause = [Engine(), Engine(), Engine()], Paused()
    async with pooled(*engines, pause=pause) as pool:
        for engine in engines:
            engine.fault = EngineFault("500")
        engines[unreached].fault = Unreached("ConnectTimeout")
        with pytest.raises(EngineFault, match="500"):
            await run(pool, ask())
    assert pause.seconds == []


async def test_an_engine_that_goes_down_in_the_pause_is_not_tried_again() -> None:
    engine = Engine()

    async def fall_ill() -> None:
        engine.ill = BackendFailed("gone")
        await pool.probe()

    async with pooled(engine, pause=Paused(fall_ill)) as pool:
        engine.fault = Unreached("ConnectTimeout")
        with pytest.raises(Unreached):
            await run(pool, ask())
    assert len(engine.asked) == 1


async def test_requests_that_fail_together_do_not_shut_each_other_out() -> None:
    clock = Clock()
    engine = Engine()

    async def recover() -> None:
        engine.fault = None

    async with pooled(engine, clock=clock, pause=Paused(recover)) as pool:
        engine.fault = Unreached("ConnectTimeout")
        engine.gate.clear()
        tasks = [asyncio.create_task(run(pool, ask(str(n)))) for n in range(8)]
        await until(lambda: len(engine.asked) == 8)
        clock.now += 5
        engine.gate.set()
        assert await asyncio.gather(*tasks) == [[LAST]] * 8


async def test_an_engine_that_fell_silent_is_tried_again_once_it_is_well() -> None:
    silent, other = Engine(), Engine()

    async def recover() -> None:
        silent.ill = None
        silent.gate.set()
        await pool.probe()

    async with pooled(silent, other, pause=Paused(recover)) as pool:
        other.ill = BackendFailed("loading")
        await pool.probe()
        silent.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(silent.asked))
        other.ill, other.fault = None, Unreached("ConnectTimeout")
        await pool.probe()
        silent.ill = BackendFailed("timed out")
        await pool.probe()
        assert await task == [LAST]
    assert len(silent.asked) == 2


async def test_an_engine_that_fell_silent_and_came_back_may_take_its_time() -> None:
    silent, other = Engine(), Engine()
    async with pooled(silent, other) as pool:
        silent.ill = BackendFailed("timed out")
        await pool.probe()
        silent.ill, other.ill = None, BackendFailed("loading")
        await pool.probe()
        silent.gate.clear()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(silent.asked))
        await pool.probe()
        silent.gate.set()
        assert await task == [LAST]
    assert (len(silent.asked), other.asked) == (1, [])


async def test_a_request_may_be_cancelled_in_the_pause() -> None:
    paused, engine = asyncio.Event(), Engine()

    async def wait_for_ever(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    async with pooled(engine, pause=wait_for_ever) as pool:
        engine.fault = Unreached("ConnectTimeout")
        chunks = pool.generate(ask())
        task = asyncio.ensure_future(anext(chunks))
        await paused.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await chunks.aclose()
        engine.fault = None
        assert await run(pool, ask("next")) == [LAST]
    assert engine.asked == ["r", "next"]


async def test_a_cancellation_while_a_lost_engine_is_closed_is_not_lost() -> None:
    class Slow(Engine):
        """Takes a while to let go of a request."""

        def __init__(self) -> None:
            super().__init__()
            self.letting_go, self.let_go = asyncio.Event(), asyncio.Event()

        async def generate(
            self, request: GenerationRequest
        ) -> AsyncGenerator[GenerationChunk, None]:
            self.asked.append(request.request_id)
            try:
                await asyncio.Event().wait()
            finally:
                self.letting_go.set()
                await self.let_go.wait()
            yield LAST

    slow, other = Slow(), Engine()
    async with pooled(slow, other) as pool:
        other.ill = BackendFailed("loading")
        await pool.probe()
        task = asyncio.create_task(run(pool, ask()))
        await until(lambda: bool(slow.asked))
        other.ill = None
        await pool.probe()
        slow.ill = BackendFailed("timed out")
        await pool.probe()
        await slow.letting_go.wait()
        task.cancel()
        slow.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert other.asked == []


async def test_a_slow_health_check_does_not_delay_other_engines() -> None:
    class Silent(Engine):
        async def check(self) -> None:
            await asyncio.Event().wait()

    silent, other = Silent(), Engine()
    async with pooled(silent, other, health_seconds=OFTEN) as pool:
        other.ill = BackendFailed("draining")
        await until(lambda: not pool._members[1].healthy)
        other.ill = None
        await until(lambda: pool._members[1].healthy)


async def test_the_watch_goes_on_after_an_unexpected_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine()
    async with pooled(engine, health_seconds=OFTEN) as pool:
        (member,) = pool._members
        engine.ill = OverflowError("infinity")
        await asyncio.wait_for(until(lambda: not member.healthy), 10)
        engine.ill = None
        await asyncio.wait_for(until(lambda: member.healthy), 10)
    assert "the check of http://a failed" in caplog.text
    assert "OverflowError: infinity" in caplog.text


# What is logged


AVOIDED = "gets no new requests while another engine is available"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "adapters.pool"]


async def test_an_engine_that_goes_and_returns_is_logged_once_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    engine = Engine()
    async with pooled(engine) as pool:
        engine.ill = BackendFailed("it answered 503")
        await pool.probe()
        await pool.probe()
        engine.ill = None
        await pool.probe()
        await pool.probe()
    assert logged(caplog) == [
        "http://a gets requests",
        f"http://a {AVOIDED}: it answered 503",
        "http://a gets requests",
    ]


async def test_an_engine_that_is_away_at_the_start_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = Engine()
    away.ill = BackendFailed("ConnectError")
    async with pooled(Engine(), away):
        assert logged(caplog) == [f"http://b {AVOIDED}: ConnectError"]


async def test_a_circuit_that_opens_and_closes_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        caplog.set_level(logging.INFO)
        await open_circuit(pool, engine)
        await run(pool, ask())
    assert logged(caplog) == [
        f"http://a {AVOIDED}: 3 requests failed one after another",
        "http://a gets requests",
    ]


async def test_an_engine_that_is_too_busy_to_describe_itself_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine()
    async with pooled(engine) as pool:
        engine.ill = BackendFailed("timed out")
        await pool.probe()
        caplog.clear()
        engine.ill, engine.silent = None, BackendFailed("busy")
        await pool.probe()
        await pool.probe()
    assert logged(caplog) == ["http://a keeps the properties that it had: busy"]
