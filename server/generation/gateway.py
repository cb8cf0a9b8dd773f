"""Starts answers: every request of either API takes this path.

`Gateway.start` raises the errors that can be found before sampling (429, 400, 503). It then starts
a run whose producer samples and emits wire events; the caller reads the run.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TypeVar

from adapters.base import Backend
from adapters.completion import completed
from adapters.errors import BackendFailed
from harmony.events import Repair
from harmony.messages import Channel
from server.errors import APIError, ServerFailed, engine_down
from server.generation.admission import Admission, Ticket
from server.generation.answer import Answer, to_api_error
from server.generation.answer_spec import AnswerSpec
from server.generation.hosted_calls import HostedCalls, ToolLimits
from server.generation.loop import Loop
from server.generation.metering import Meter, Observer, TokenCounts
from server.generation.outbound_protocol import Outbound
from server.generation.plan import RawPlan, TurnPlan
from server.generation.runs import Emit, Journal, Run, Runs
from server.generation.summary_events import SummaryEvents, protected_texts
from server.generation.turn import SharedPrompt, Turn, prepare, prepare_raw
from server.generation.turn_events import TurnFinished, Usage
from server.summaries.base import Summariser
from server.summaries.writer import SummaryWriter
from server.tools.closing import close_sessions

logger = logging.getLogger(__name__)


P = TypeVar("P", bound=TurnPlan | RawPlan)


class Gateway:
    """The engine, its queue and the runs in progress.

    max_tokens: limit for plans without one; None is the rest of the context. guard: whether to
    close reasoning that loops and to log other loops. loops: the number of loops by place, since
    the start: `analysis` (closed), `commentary`, `final`, `call` and `header` (logged only).
    tokens: what the engine has computed since the start. tool_limits: those of the hosted calls of
    each answer. summariser: writes the summaries of reasoning; None for none. summary_patience:
    seconds that an answer waits for parts of its summaries, in all. summaries: the number of parts
    by how they ended, since the start: `written`, `withheld`, `skipped` (no free slot), `failed`
    and `late`. observer: is told of turns, answers and hosted calls that ended.
    """

    def __init__(
        self,
        backend: Backend,
        admission: Admission,
        *,
        max_tokens: int | None = None,
        guard: bool = True,
        tool_limits: ToolLimits | None = None,
        summariser: Summariser | None = None,
        summary_patience: float = 2.0,
        observer: Observer | None = None,
    ) -> None:
        self.backend = backend
        self.admission = admission
        self.runs = Runs()
        self.loops = Counter[str]()
        self.tokens = TokenCounts()
        self.summaries = Counter[str]()
        self._observer = observer or Observer()
        self._summariser = summariser
        self._summary_patience = summary_patience
        self._max_tokens = max_tokens
        self._guard = guard
        self._tool_limits = tool_limits or ToolLimits()

    async def start(self, spec: AnswerSpec) -> Run:
        """Admit the answer and start its run. Raises APIError for errors before sampling.

        Where the caller is cancelled while the journal begins, the run is started and cancelled: it
        ends what is stored.
        """
        cancelled = None
        meter = Meter(self.tokens, self._observer, prompt=spec.prompt_count)
        try:
            ticket = self.admission.enter(spec.plan.priority, hosted=bool(spec.sessions))
            try:
                await self._check()
                turn = await self.prepare(spec.plan, spec.request_id, spec.prompt)
                if spec.journal is not None:
                    cancelled = await _begin(spec.journal)
            except BaseException as error:
                _count_failed_start(meter, error)
                ticket.leave()
                raise
        except BaseException:
            await close_sessions(spec.sessions, spec.request_id)
            raise
        answer = self._answer(spec, turn, ticket, meter)
        run = self.runs.start(
            answer, spec.request_id, journal=spec.journal, background=spec.background
        )
        run.when_done(ticket.leave)
        if cancelled is not None:
            # After its first step. Cancelled before that it would emit nothing, and what is stored
            # would stay in progress.
            asyncio.get_running_loop().call_soon(run.cancel)
            raise cancelled
        return run

    def _answer(self, spec: AnswerSpec, turn: Turn, ticket: Ticket, meter: Meter) -> Answer:
        """The producer of the answer. turn: the first one. ticket: that of its admission."""
        calls = HostedCalls(spec, self._tool_limits, self._observer)
        summaries = self._summary_events(spec.plan, spec.request_id)
        loop = Loop(spec, turn, ticket, calls, meter, summaries)
        return Answer(spec, loop, calls, meter, self.runs)

    async def start_empty(
        self, outbound: Outbound, request_id: str, *, journal: Journal | None = None
    ) -> Run:
        """Start an empty answer without sampling. Raises the errors of the journal.

        A caller that is cancelled while the journal begins leaves a run, which ends by itself.
        """

        async def produce(emit: Emit) -> None:
            events = outbound.start()
            try:
                await emit([*events, *outbound.push(TurnFinished("stop", Usage(0)))])
            except Exception as error:
                failure = to_api_error(error, request_id)
                await emit(outbound.fail(failure))
                raise failure from error

        cancelled = None if journal is None else await _begin(journal)
        run = self.runs.start(produce, request_id, journal=journal)
        if cancelled is not None:
            raise cancelled
        return run

    async def close(self) -> None:
        """End all runs, and close the summariser's connections."""
        await self.runs.close()
        if self._summariser is not None:
            await self._summariser.close()

    async def _check(self) -> None:
        try:
            await self.backend.check()
        except BackendFailed as error:
            raise engine_down(error) from error

    async def prepare(
        self, plan: TurnPlan | RawPlan, request_id: str, prompt: SharedPrompt | None = None
    ) -> Turn:
        """Prepare the plan for the engine. Raises APIError as `turn.prepare` does.

        prompt: as in AnswerSpec.
        """
        plan = self.limited(plan)
        if isinstance(plan, RawPlan):
            return await prepare_raw(plan, self.backend, request_id)
        report = partial(self._count_loop, request_id) if self._guard else None
        return await prepare(plan, self.backend, request_id, report, prompt)

    def limited(self, plan: P) -> P:
        """The plan with the default limit of tokens, if it has none of its own."""
        return plan if plan.max_tokens is not None else replace(plan, max_tokens=self._max_tokens)

    def _summary_events(self, plan: TurnPlan | RawPlan, request_id: str) -> SummaryEvents | None:
        """What adds summaries to the answer; None if the plan asks for none."""
        if self._summariser is None or isinstance(plan, RawPlan) or plan.summary is None:
            return None
        writer = SummaryWriter(
            self._summariser,
            plan.summary,
            protected_texts(plan),
            patience=self._summary_patience,
            all_counts=self.summaries,
            name=request_id,
        )
        return SummaryEvents(writer)

    def _count_loop(self, request_id: str, place: str) -> None:
        self.loops[place] += 1
        result = "was closed" if place == Channel.ANALYSIS else "goes on"
        logger.warning(
            "request %s: %s: %s %s (%d so far)",
            *(request_id, Repair.REPETITION, place, result, self.loops[place]),
        )


async def _begin(journal: Journal) -> asyncio.CancelledError | None:
    """Begin the journal, even if the caller is cancelled meanwhile; return that cancellation.

    In the middle, nobody would know whether there is an answer in the store now, and it would stay
    in progress. Raises the errors of the journal, and the cancellation where it has not begun.
    """
    beginning = asyncio.ensure_future(journal.begin())
    try:
        await completed(beginning)
    except asyncio.CancelledError as cancelled:
        if beginning.cancelled() or beginning.exception() is not None:
            raise
        return cancelled
    return None


def _count_failed_start(meter: Meter, error: BaseException) -> None:
    """Count an answer that was admitted and did not start, unless its request was the mistake."""
    if not isinstance(error, Exception):
        meter.ended("abort")
    elif not isinstance(error, APIError):
        meter.ended("error", ServerFailed.default_code)
    elif error.status >= 500:
        meter.ended("error", error.code)
