"""Several engines behind one backend.

Where a request goes: to the engine that its affinity hashes to (every gateway in front of the same
engines picks the same one, and none tells the others), unless that one is down or far busier than
the rest; without affinity to the engine with the fewest requests. An engine that fails before the
first token costs nothing but time: the request goes to another. When all have failed it, those that
could only not be reached are tried again after a pause, unless they are down, and a last time after
a longer one: a machine that stands still for a moment costs no request. After the first token the
failure is the request's, since what was sampled cannot be taken back.

Down means: the last health check failed (an engine that drains says 503: it gets nothing new and
finishes what it has), or requests failed there several times in a row (the circuit is open; after a
while one request tries again). In a row: each was sent after the failure before it; what was out at
the same time failed for the same reason.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from adapters.base import Backend, BackendInfo, GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, EngineFault, Overloaded, Unreached

_FAILURES_TO_OPEN = 3
_OPEN_SECONDS = 10.0
# How many requests more than its fair share an engine takes for the sake of its cache.
_AFFINITY_SLACK = 8
# Seconds before engines that could not be reached are tried again.
_PAUSES = (0.2, 1.0)

Clock = Callable[[], float]
Pause = Callable[[float], Awaitable[None]]


class Circuit:
    """Counts failures in a row; when there are too many, lets one try through every while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._failed_at = 0.0
        self._retry_at = 0.0

    @property
    def passes(self) -> bool:
        """Whether a request may be sent."""
        return self._failures < _FAILURES_TO_OPEN or self._clock() >= self._retry_at

    def sent(self) -> float:
        """A request goes out; where the circuit was open it is the only one for a while.

        Returns when.
        """
        now = self._clock()
        self._retry_at = now + _OPEN_SECONDS
        return now

    def succeeded(self) -> None:
        """The engine sampled a token."""
        self._failures = 0

    def failed(self, sent_at: float) -> None:
        """The engine failed a request that was sent then."""
        if sent_at < self._failed_at:
            return
        self._failures += 1
        self._failed_at = self._clock()
        self._retry_at = self._failed_at + _OPEN_SECONDS


class Member:
    """An engine of the pool. load: requests that this gateway has on it."""

    def __init__(self, name: str, engine: Backend, clock: Clock) -> None:
        self.name = name
        self.engine = engine
        self.circuit = Circuit(clock)
        self.load = 0
        self.started = False
        self.healthy = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def available(self) -> bool:
        return self.healthy and self.circuit.passes

    async def probe(self) -> None:
        """Look whether the engine can serve; start it where that has not worked yet.

        Raises BackendFailed.
        """
        try:
            await (self.engine.check() if self.started else self.engine.start())
        except BackendFailed:
            self.healthy = False
            raise
        self.started = self.healthy = True

    def lose(self) -> None:
        """Let go of the requests that still wait for a first token here."""
        self.lost.set_result(None)
        self.lost = asyncio.get_running_loop().create_future()

    async def first(self, chunks: AsyncGenerator[GenerationChunk, None]) -> GenerationChunk:
        """The first chunk. Raises BackendFailed when the engine is lost before it comes."""
        waiting = asyncio.ensure_future(anext(chunks))
        either: set[asyncio.Future[Any]] = {waiting, self.lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise Unreached(f"{self.name} does not answer any more")
        except StopAsyncIteration:
            raise EngineFault(f"{self.name} ended without a token") from None
        finally:
            if not waiting.done():
                await _let_go(waiting)


class Pool:
    """Implements `adapters.base.Backend` over engines that serve the same model.

    name: in BackendInfo. engines: name (a URL) -> backend, at least one. health_seconds: between
    two checks of an engine. pause: waits for so many seconds.
    """

    def __init__(
        self,
        name: str,
        engines: dict[str, Backend],
        health_seconds: float,
        clock: Clock = time.monotonic,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._name = name
        self._engines = engines
        self._health_seconds = health_seconds
        self._clock = clock
        self._pause = pause
        self._members: list[Member] = []
        self._info: BackendInfo | None = None
        self._watches: set[asyncio.Task[None]] = set()

    @property
    def info(self) -> BackendInfo:
        if self._info is None:
            raise BackendFailed(f"the {self._name} backend has not been started")
        return self._info

    async def start(self) -> None:
        """Start the engines. Raises BackendFailed when none can be reached; others may join."""
        self._members = [Member(*item, self._clock) for item in self._engines.items()]
        failures = await self.probe()
        started = [member.engine.info for member in self._members if member.started]
        if not started:
            raise BackendFailed("; ".join(str(error) for error in failures))
        self._info = replace(
            started[0],
            name=self._name,
            context_length=min(info.context_length for info in started),
            features=frozenset.intersection(*(info.features for info in started)),
            max_requests=self._max_requests(started),
        )
        self._watches = {asyncio.create_task(self._keep_watch(one)) for one in self._members}

    def _max_requests(self, started: list[BackendInfo]) -> int | None:
        """What all engines compute at once; those that join later count as the smallest does."""
        counts = [info.max_requests for info in started if info.max_requests is not None]
        return min(counts) * len(self._engines) if len(counts) == len(started) else None

    async def stop(self) -> None:
        watches, self._watches = self._watches, set()
        for watch in watches:
            watch.cancel()
        if watches:
            await asyncio.wait(watches)
        members, self._members = self._members, []
        await asyncio.gather(*(member.engine.stop() for member in members))

    async def check(self) -> None:
        """Raises BackendFailed when no engine can serve."""
        if not any(member.available for member in self._members):
            raise BackendFailed(f"no engine of the {self._name} backend can serve")

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        candidates, pauses = list(self._members), iter(_PAUSES)
        untried = list(candidates)
        failure: BackendError = BackendFailed(f"the {self._name} backend is not running")
        while untried:
            member = choose(untried, request)
            untried.remove(member)
            sampled = False
            try:
                async with aclosing(self._generate_on(member, request)) as chunks:
                    async for chunk in chunks:
                        sampled = True
                        yield chunk
                return
            except (BackendFailed, Overloaded) as error:
                if sampled:
                    raise
                failure = error
                if not isinstance(error, Unreached):
                    candidates.remove(member)
            untried = untried or await self._again(candidates, pauses)
        raise failure

    async def _again(self, members: Sequence[Member], pauses: Iterator[float]) -> list[Member]:
        """Those to try once more, after the next pause; none where it would be in vain."""
        pause = next(pauses, None)
        if pause is None or not _available(members):
            return []
        await self._pause(pause)
        return _available(members)

    async def _generate_on(
        self, member: Member, request: GenerationRequest
    ) -> AsyncGenerator[GenerationChunk, None]:
        member.load += 1
        sent_at = member.circuit.sent()
        try:
            async with aclosing(member.engine.generate(request)) as chunks:
                yield await member.first(chunks)
                member.circuit.succeeded()
                async for chunk in chunks:
                    yield chunk
        except BackendFailed:
            member.circuit.failed(sent_at)
            raise
        finally:
            member.load -= 1

    async def probe(self) -> list[BackendFailed]:
        """Check all engines at once; what failed, in their order."""
        results = await asyncio.gather(*(self._probe(member) for member in self._members))
        return [result for result in results if result is not None]

    async def _probe(self, member: Member) -> BackendFailed | None:
        was_healthy = member.healthy
        try:
            await member.probe()
        except BackendFailed as error:
            others = (other for other in self._members if other is not member)
            if was_healthy and any(other.available for other in others):
                member.lose()
            return error
        return None

    async def _keep_watch(self, member: Member) -> None:
        """Apart from the others: one that takes its time to answer does not hide what they say."""
        while True:
            await asyncio.sleep(self._health_seconds)
            await self._probe(member)


async def _let_go(waiting: asyncio.Future[Any]) -> None:
    """Cancel it and return once it has ended, however; whoever cancels this is told then."""
    cancelled: asyncio.CancelledError | None = None
    waiting.cancel()
    while not waiting.done():
        try:
            await asyncio.wait({waiting})
        except asyncio.CancelledError as error:
            cancelled = error
    waiting.cancelled() or waiting.exception()  # else it counts as never looked at
    if cancelled is not None:
        raise cancelled


def choose(members: Sequence[Member], request: GenerationRequest) -> Member:
    """The engine for a request, one of `members`; those that are down only where all are."""
    able = _available(members) or members
    key = request.affinity or request.request_id
    ranked = sorted(able, key=lambda member: _weight(member.name, key))
    least = min(member.load for member in able)
    if request.affinity is not None and ranked[0].load <= least + _AFFINITY_SLACK:
        return ranked[0]
    return min(ranked, key=lambda member: member.load)


def _available(members: Sequence[Member]) -> list[Member]:
    return [member for member in members if member.available]


def _weight(name: str, key: str) -> bytes:
    """Rendezvous hashing: when an engine leaves, only what was on it moves."""
    return blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
