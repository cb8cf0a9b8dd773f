"""Several engines behind one backend.

Routing: a request with an affinity goes to the engine that the affinity hashes to, unless that
engine is down or far busier than the others. All gateways choose the same engine, without
communication. A request without an affinity goes to the engine with the fewest requests.

Failover: if an engine fails before the first token, or does not support the request, the request
goes to another engine. If all engines failed, those that could not be reached are tried again after
a short pause, and once more after a longer one, unless they are down. A request with which two
engines failed, though they were reached, goes to no third one: it may be what makes them fail, or
end, which shows as a lost connection. After the first token a failure ends the request, since
sampled tokens cannot be withdrawn.

An engine is down if its last health check failed, or if several consecutive requests failed (the
circuit is open; after a while one request tries again, and after a passed health check any). While
another engine is available, it gets no new requests, those that wait for its first token go there
if they can, and it finishes the others. This is also how an engine drains: it answers health checks
with 503.

Failures are consecutive if each request was sent after the failure before it, and no request that
was sent in between ended well. Requests that were in flight at the same time fail for the same
reason, and count once; so do the attempts of one request.

An engine whose health check failed may have been restarted with other properties, and so may one
that could not be reached, was not ready for a request, or refused it: a quick restart passes
between two checks. They are requested again when it is back, and `Pool.info` is what all engines
have in common. A busy engine may not answer this: it keeps the properties that it had until it
does.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

from adapters.base import FEATURES, Backend, BackendInfo, GenerationChunk, GenerationRequest
from adapters.circuit import FAILURES_TO_OPEN, Circuit, Clock
from adapters.completion import completed
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

logger = logging.getLogger(__name__)

# How many requests more than its fair share an engine takes for the sake of its cache.
_AFFINITY_SLACK = 8
# Seconds before engines that could not be reached are tried again.
_PAUSES = (0.2, 1.0)
# How many engines may fail with a request, since one that makes an engine end would end them all.
_MAX_FAULTS = 2
# An engine raises these where another one may have more.
_UNSUITED = (ContextTooLong, Unsupported)

Pause = Callable[[float], Awaitable[None]]


class Candidate(Protocol):
    """An engine that may get a request. load: the number of its requests."""

    @property
    def name(self) -> str: ...

    @property
    def load(self) -> int: ...


C = TypeVar("C", bound=Candidate)


class Member:
    """An engine of the pool.

    load: the number of requests of this gateway that run on it. started: whether its properties are
    known. described: whether they were requested after its last failed check, and after the last
    error of a request that a restart may have caused.
    """

    def __init__(self, name: str, engine: Backend, clock: Clock) -> None:
        self.name = name
        self.engine = engine
        self.circuit = Circuit(clock)
        self.load = 0
        self.started = False
        self.described = False
        self.healthy = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._logged: bool | None = None
        self._logged_reason = ""

    @property
    def available(self) -> bool:
        return self.healthy and self.circuit.passes

    async def probe(self) -> None:
        """Check whether the engine can serve, and request its properties if that is necessary.

        Raises BackendFailed; after any error the engine counts as down.
        """
        last_failure = self.circuit.last_failure
        try:
            if self.started:
                await self.engine.check()
            if not self.described:
                await self._describe()
        except Exception as error:
            self.healthy = self.described = False
            self._log(error)
            raise
        self.started = self.healthy = True
        self.circuit.passed_check(last_failure)
        self._log("")

    async def _describe(self) -> None:
        """Request the properties. Raises BackendFailed if there are none from before."""
        # Before the request, since a `Mismatch` meanwhile makes its result doubtful.
        self.described = True
        reason = ""
        try:
            await self.engine.start()
        except BackendFailed as error:
            if not self.started:
                raise
            self.described, reason = False, str(error)
        if reason and reason != self._logged_reason:
            logger.warning("%s keeps the properties that it had: %s", self.name, reason)
        self._logged_reason = reason

    def succeeded(self, ticket: int) -> None:
        """Record that the engine has not failed the request with `ticket`."""
        self.circuit.succeeded(ticket)
        self._log("")

    def failed(self, ticket: int) -> None:
        """Record that the engine failed the request with `ticket`."""
        self.circuit.failed(ticket)
        self._log(f"{FAILURES_TO_OPEN} requests failed one after another")

    def _log(self, reason: object) -> None:
        """Log whether the engine is in use, if that has changed."""
        in_use = self.healthy and not self.circuit.is_open
        if in_use is self._logged:
            return
        self._logged = in_use
        if in_use:
            logger.info("%s gets requests", self.name)
        else:
            logger.warning(
                "%s gets no new requests while another engine is available: %s", self.name, reason
            )

    def lose(self) -> None:
        """Release the requests that wait for a first token of this engine."""
        self.lost.set_result(None)
        self.lost = asyncio.get_running_loop().create_future()

    async def first(
        self, chunks: AsyncGenerator[GenerationChunk, None], may_move: Callable[[], bool]
    ) -> GenerationChunk:
        """The first chunk. Raises BackendFailed if the engine is lost before that.

        may_move: whether the request can go to another engine then; if not, it goes on waiting.
        """
        waiting = asyncio.ensure_future(anext(chunks))
        try:
            while not waiting.done():
                either: set[asyncio.Future[Any]] = {waiting, self.lost}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done() and may_move():
                    raise Unreached(f"{self.name} does not answer any more")
            return waiting.result()
        except StopAsyncIteration:
            raise EngineFault(f"{self.name} ended without a token") from None
        finally:
            await _cancel(waiting)


class Pool:
    """Implements `adapters.base.Backend` over engines that serve the same model.

    name: in BackendInfo. engines: name (a URL) -> backend, at least one; names and the messages of
    BackendFailed are logged. health_seconds: between two checks of an engine. pause: waits for so
    many seconds.
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
        # The server is set up for these at its start: those of engines that join are not added.
        self._offered = FEATURES
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
        if not any(member.started for member in self._members):
            raise BackendFailed("; ".join(str(error) for error in failures))
        self._offered = self.info.features
        self._watches = {asyncio.create_task(self._keep_watch(one)) for one in self._members}

    def _combined(self) -> BackendInfo:
        """What all engines that were ever reached have in common, `_offered` at most."""
        started = [member.engine.info for member in self._members if member.started]
        return replace(
            started[0],
            name=self._name,
            context_length=min(info.context_length for info in started),
            features=self._offered.intersection(*(info.features for info in started)),
            max_requests=self._max_requests(started),
        )

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
        """Raises BackendFailed when no engine is healthy.

        Open circuits do not matter: while all are open, requests are sent all the same.
        """
        if not any(member.healthy for member in self._members):
            raise BackendFailed(f"no engine of the {self._name} backend can serve")

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        candidates, pauses = list(self._members), iter(_PAUSES)
        untried = list(candidates)
        tickets: dict[Member, int] = {}
        failure: BackendError | None = None
        faults = 0
        while untried:
            # Those that are down only where all are.
            member = choose(_available(untried) or untried, request)
            untried.remove(member)
            sampled = False
            try:
                attempt = self._generate_on(member, request, tickets, untried)
                async with aclosing(attempt) as chunks:
                    async for chunk in chunks:
                        sampled = True
                        yield chunk
                return
            except (BackendFailed, Overloaded, *_UNSUITED) as error:
                if sampled and isinstance(error, BackendFailed):
                    raise
                if sampled:
                    raise EngineFault(f"{member.name} does not take the rest of it") from error
                # If only some of the engines are unsuited, the request is not at fault.
                if failure is None or not isinstance(error, _UNSUITED):
                    failure = error
                if not isinstance(error, Unreached):
                    candidates.remove(member)
                faults += _is_fault(error)
                if faults == _MAX_FAULTS:
                    break
            untried = untried or await self._again(candidates, pauses)
        raise failure or BackendFailed(f"the {self._name} backend is not running")

    async def _again(self, members: Sequence[Member], pauses: Iterator[float]) -> list[Member]:
        """The engines to try once more, after the next pause; none if no attempt is left."""
        pause = next(pauses, None)
        if pause is None or not _available(members):
            return []
        await self._pause(pause)
        return _available(members)

    async def _generate_on(
        self,
        member: Member,
        request: GenerationRequest,
        tickets: dict[Member, int],
        others: Sequence[Member],
    ) -> AsyncGenerator[GenerationChunk, None]:
        """Sample on one engine.

        tickets: those of the request's first attempts, by engine. others: the engines that it can
        go to if this one is lost.
        """
        member.load += 1
        ticket = member.circuit.sent()
        # A failure has the ticket of the first attempt, so that all attempts count as one.
        first = tickets.setdefault(member, ticket)
        try:
            async with aclosing(member.engine.generate(request)) as chunks:
                yield await member.first(chunks, lambda: bool(_available(others)))
                async for chunk in chunks:
                    yield chunk
            member.succeeded(ticket)
        except GeneratorExit:
            # Whoever leaves after a token, as at a stop string, has found no failure.
            member.succeeded(ticket)
            raise
        except (Mismatch, NotReady, Rejected, InvalidGrammar):
            member.described = False
            member.circuit.undecided(ticket)
            raise
        except BackendFailed as error:
            if isinstance(error, Unreached):
                member.described = False
            if isinstance(error, GenerationFailed) and request.grammar is not None:
                # The grammar may be at fault. It must not close the engine to other requests.
                member.circuit.undecided(ticket)
            else:
                member.failed(first)
            raise
        except (BackendError, asyncio.CancelledError):
            member.circuit.undecided(ticket)
            raise
        finally:
            member.load -= 1

    async def probe(self) -> list[BackendFailed]:
        """Check all engines at once; what failed, in their order."""
        results = await asyncio.gather(*(self._probe(member) for member in self._members))
        return [result for result in results if result is not None]

    async def _probe(self, member: Member) -> BackendFailed | None:
        try:
            await member.probe()
        except BackendFailed as error:
            member.lose()
            return error
        self._info = self._combined()
        return None

    async def _keep_watch(self, member: Member) -> None:
        """Probe one engine periodically, so that a slow answer does not delay other probes."""
        while True:
            await asyncio.sleep(self._health_seconds)
            try:
                await self._probe(member)
            except Exception:
                logger.exception("the check of %s failed", member.name)


async def _cancel(waiting: asyncio.Future[Any]) -> None:
    """Cancel `waiting` unless it is done, and return when it is.

    A cancellation of the caller is raised then.
    """
    try:
        if waiting.cancel():
            await completed(asyncio.wait({waiting}))
    finally:
        waiting.cancelled() or waiting.exception()  # else it counts as never looked at


def _is_fault(error: BackendError) -> bool:
    """Whether the request may have made the engine fail."""
    if isinstance(error, Lost):
        return True
    return isinstance(error, BackendFailed) and not isinstance(error, (Unreached, Mismatch))


def choose(candidates: Sequence[C], request: GenerationRequest) -> C:
    """The engine for a request."""
    key = request.affinity or request.request_id
    ranked = sorted(candidates, key=lambda candidate: _weight(candidate.name, key))
    least = min(candidate.load for candidate in candidates)
    if request.affinity is not None and ranked[0].load <= least + _AFFINITY_SLACK:
        return ranked[0]
    return min(ranked, key=lambda candidate: candidate.load)


def _available(members: Sequence[Member]) -> list[Member]:
    return [member for member in members if member.available]


def _weight(name: str, key: str) -> bytes:
    """Rendezvous hashing: if an engine is removed, only its requests move."""
    return blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
