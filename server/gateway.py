"""From a plan to a running answer: the one path that every request of either API takes.

`Gateway.start` refuses what can be refused (429, 400, 500 before anything was sent), then starts
a run whose producer samples and appends wire events; the caller follows the run.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Protocol

from adapters.base import Backend
from adapters.errors import BackendError
from server.admission import Admission, Ticket
from server.completion import TurnFinished
from server.errors import APIError, ServerFailed, from_backend
from server.outbound.base import Outbound
from server.plan import TurnPlan
from server.runs import Emit, Run, Runs, WireEvent
from server.turn import Turn, prepare

logger = logging.getLogger(__name__)


class Journal(Protocol):
    """What keeps a run's events; it is written before any subscriber sees them."""

    async def write(self, events: Sequence[WireEvent]) -> None:
        """Keep the next events of the run."""
        ...


class NoJournal:
    """Keeps nothing: for answers that are not stored."""

    async def write(self, events: Sequence[WireEvent]) -> None:
        """Forget them."""


class Gateway:
    """The engine, its queue and the runs in progress."""

    def __init__(self, backend: Backend, admission: Admission) -> None:
        self.backend = backend
        self.runs = Runs()
        self._admission = admission

    async def start(
        self,
        plan: TurnPlan,
        outbound: Outbound,
        request_id: str,
        *,
        journal: Journal | None = None,
        background: bool = False,
    ) -> Run:
        """Admit and start. Raises APIError for all that can be known before sampling."""
        ticket = self._admission.enter()
        try:
            await self.backend.check()
            turn = await prepare(plan, self.backend, request_id)
        except BackendError as error:
            ticket.leave()
            raise from_backend(error) from error
        except BaseException:
            ticket.leave()
            raise
        answer = _Answer(turn, outbound, ticket, journal or NoJournal())
        run = self.runs.start(answer, background=background)
        run.when_done(ticket.leave)
        return run


class _Answer:
    """The producer of one answer's events."""

    def __init__(self, turn: Turn, outbound: Outbound, ticket: Ticket, journal: Journal) -> None:
        self._turn = turn
        self._outbound = outbound
        self._ticket = ticket
        self._journal = journal
        self._finished = False

    async def __call__(self, emit: Emit) -> None:
        try:
            await self._keep(self._outbound.start(), emit)
            async with self._ticket.slot(), aclosing(self._turn.events()) as batches:
                async for batch in batches:
                    events = [wire for event in batch for wire in self._outbound.push(event)]
                    await self._keep(events, emit)
                    self._finished = any(isinstance(event, TurnFinished) for event in batch)
        except asyncio.CancelledError:
            await self._break_off(self._outbound.cancel, emit)
            raise
        except APIError as error:
            await self._break_off(partial(self._outbound.fail, error), emit)
            raise
        except Exception as error:
            logger.exception("request %s failed", self._turn.request.request_id)
            failure = ServerFailed("The server had an error while processing the request.")
            await self._break_off(partial(self._outbound.fail, failure), emit)
            raise failure from error

    async def _break_off(self, last_events: Callable[[], list[WireEvent]], emit: Emit) -> None:
        # A client that leaves on the terminal event cancels a run that has nothing more to say.
        if not self._finished:
            await self._keep(last_events(), emit)

    async def _keep(self, events: Sequence[WireEvent], emit: Emit) -> None:
        if events:
            await self._journal.write(events)
            emit(events)
