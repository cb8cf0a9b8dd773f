"""The turns of one answer, and the hosted calls between them.

A turn that ends in a call of a hosted tool is followed by the call's result and another turn. Its
prompt is exactly the tokens up to the call and the rendered result, so that the engine's prefix
cache applies. Where a limit refuses a call, the model gets a result that says so, and the next turn
is held to the final channel by its prompt, which ends with the header of a final message.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

from adapters.base import FinishReason, GenerationChunk
from adapters.errors import BackendError, BackendFailed
from harmony.grammar import (
    GrammarSpec,
    after_hosted_call,
    final_headers,
    reasoned_grammar,
    turn_grammar,
)
from server import threads
from server.generation.admission import Ticket
from server.generation.answer_spec import AnswerSpec
from server.generation.call_results import render_result
from server.generation.hosted_calls import HostedCalls
from server.generation.metering import Meter
from server.generation.plan import Constraint, TurnPlan
from server.generation.runs import Emit, WireEvent
from server.generation.summary_events import SummaryEvents
from server.generation.turn import Turn
from server.generation.turn_events import (
    CallEnded,
    CallStarted,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.ids import new_id
from server.tools.base import ApprovalRequested, ToolCall, ToolProgress, ToolResult

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0
"""How long the end of a turn waits for the engine to close the request."""
_AT_ONCE = 16
"""The most events of a turn that are turned into wire events in one go."""


class Loop:
    """Makes the events of one answer between `Outbound.start` and its last events.

    turn: the first one. summaries: adds summaries of the reasoning; None for an answer without
    them.
    """

    def __init__(
        self,
        spec: AnswerSpec,
        turn: Turn,
        ticket: Ticket,
        calls: HostedCalls,
        meter: Meter,
        summaries: SummaryEvents | None,
    ) -> None:
        self._summaries = summaries
        self._turn = turn
        self._outbound = spec.outbound
        self._ticket = ticket
        self._calls = calls
        self._last_events = spec.last_events
        self._meter = meter
        self._counts = meter.counts
        self._recorder = spec.recorder
        self._request_id = spec.request_id
        self._earlier: list[TurnFinished] = []
        self._forced = False

    async def run(self, emit: Emit) -> None:
        """Run until the answer is complete: first the calls that the client has approved.

        Raises APIError, also for errors of the engine.
        """
        try:
            approved = await self._calls.approved()
            for each in approved:
                if not await self._continue_after(each, emit):
                    return
            # A call that ran is not lost to a request that comes later.
            returning = bool(approved)
            self._meter.queued()
            while True:
                async with self._ticket.slot(returning=returning):
                    ending = await self._sample(emit)
                # Without the slot and the engine: to store the end may take long.
                call = await self._end_turn(ending, emit)
                if call is None or not await self._continue_after(call, emit):
                    return
                returning = True
        finally:
            if self._summaries is not None:
                self._summaries.close()

    async def _continue_after(self, call: ToolCall, emit: Emit) -> bool:
        """Run the call and prepare the next turn; False if the answer is complete."""
        with self._ticket.outside():
            turn = await self._turn_after(call, emit)
        if turn is not None:
            self._turn = turn
        return turn is not None

    async def _sample(self, emit: Emit) -> list[TurnEvent]:
        """All samplings of the turn, each after the one before is closed.

        Returns the turn's last events, which are not emitted yet.
        """
        # One coroutine for all samplings: each one that waits costs time at every token.
        turn, recorder, meter = self._turn, self._recorder, self._meter
        meter.turn_started()
        awaits_token = meter.awaits_token
        ending: list[TurnEvent] = []
        try:
            while not ending:
                if recorder is not None:
                    recorder.begin(turn.request)
                async with self._closing(turn.chunks()) as chunks:
                    async for chunk in chunks:
                        self._counts.sampled += len(chunk.token_ids)
                        if awaits_token and chunk.token_ids:
                            awaits_token = False
                            meter.token_sampled()
                        read = turn.read(chunk)
                        if recorder is not None:
                            last = turn.resumes or turn.ended is not None
                            recorder.add(chunk, turn.sampled, last=last)
                        if self._summaries is not None:
                            await self._emit_with_summaries(read, len(chunk.token_ids), emit)
                        elif len(read) > _AT_ONCE:  # few chunks are: most take the short way
                            await _emit(emit, await self._emit_most(read, emit))
                        elif events := self._wire_events(read):
                            await emit(events)
                        if turn.ended:
                            ending = turn.finish()
                            # Before the client reads the end: it may ask for the counts at once.
                            meter.turn_ended(turn.usage, turn.repairs)
                            break
                        if turn.resumes:
                            break
                    else:
                        raise BackendFailed("the engine ended without a finish reason")
        except Exception as error:
            self._raise_or_log(error, is_late=bool(ending))
        finally:
            meter.turn_left(turn.usage, turn.repairs)
        return ending

    @asynccontextmanager
    async def _closing(
        self, chunks: AsyncGenerator[GenerationChunk, None]
    ) -> AsyncIterator[AsyncGenerator[GenerationChunk, None]]:
        """Close the generator after the block. An engine that takes longer is cut off."""
        try:
            yield chunks
        finally:
            try:
                async with asyncio.timeout(CLOSE_SECONDS) as limit:
                    await chunks.aclose()
            except TimeoutError:
                if not limit.expired():
                    raise
                logger.warning("request %s: the engine is slow to close it", self._request_id)

    def _raise_or_log(self, error: Exception, *, is_late: bool) -> None:
        """Raise the client's error for one of the engine, and any other as it is.

        is_late: whether the turn is complete. The error is only logged then, without the words of a
        BackendError, which may quote the prompt.
        """
        if is_late:
            bug = None if isinstance(error, BackendError) else error
            message = "request %s: the engine failed after a turn: %s"
            logger.error(message, self._request_id, type(error).__name__, exc_info=bug)
        elif isinstance(error, BackendError):
            raise self._turn.api_error(error) from error
        else:
            raise error

    async def _end_turn(self, ending: list[TurnEvent], emit: Emit) -> ToolCall | None:
        """Emit the turn's last events.

        Returns the hosted call that the turn ends in; None if the answer is complete. It is
        complete, too, where a turn that was held to the final channel made a call.
        """
        *closing, finished = ending
        assert isinstance(finished, TurnFinished)
        call = None if self._forced else self._hosted_call(finished)
        events: list[WireEvent] = []
        if self._summaries is not None:
            await self._emit_with_summaries(closing, 0, emit)
        else:
            events = await self._emit_most(closing, emit)
        if call is not None:
            await _emit(emit, events)
            self._earlier.append(finished)
            return call
        await self._finish(self._whole(finished), emit, events)
        return None

    async def _emit_with_summaries(
        self, read: Sequence[TurnEvent], tokens: int, emit: Emit
    ) -> None:
        """Emit the events of a chunk, with parts of summaries. tokens: those of the chunk."""
        assert self._summaries is not None
        async with aclosing(self._summaries.add_to(read, tokens)) as batches:
            async for batch in batches:
                await _emit(emit, await self._emit_most(batch, emit))

    async def _emit_most(self, batch: Sequence[TurnEvent], emit: Emit) -> list[WireEvent]:
        """Emit all but the last events of a batch, and return those. Others run in between: each
        event may have the logprobs of many tokens."""
        last = max(len(batch) - _AT_ONCE, 0)
        for first in range(0, last, _AT_ONCE):
            part = batch[first : min(first + _AT_ONCE, last)]
            await _emit(emit, self._wire_events(part))
            await asyncio.sleep(0)
        return self._wire_events(batch[last:])

    def _hosted_call(self, finished: TurnFinished) -> ToolCall | None:
        """The complete hosted call that is the turn's last message."""
        closed = self._turn.last
        if finished.reason != "stop" or closed is None or not closed.complete:
            return None
        recipient, channel = closed.header.recipient, closed.header.channel
        if recipient is None or not self._calls.runs(recipient):
            return None
        item_id = self._outbound.open_item_id or new_id("call")
        return ToolCall(item_id, recipient, channel, str(closed.message.content))

    async def _turn_after(self, call: ToolCall, emit: Emit) -> Turn | None:
        """Run the call, and prepare the next turn; None if the answer is complete."""
        if self._earlier and self._tokens_left() == 0:
            # The result could not be read.
            await self._finish(self._whole_so_far("length"), emit)
            return None
        refusal = self._calls.refusal()
        if refusal is None:
            result = await self._run_call(call, emit)
        else:
            self._forced = True
            result = self._calls.refuse(call, refusal)
        if isinstance(result, ApprovalRequested):
            await self._finish(self._whole_so_far("stop"), emit, self._push(result))
            return None
        return await self._turn_with(call, result, emit, ran=refusal is None)

    async def _run_call(self, call: ToolCall, emit: Emit) -> ToolResult | ApprovalRequested:
        started_ms = 0 if self._recorder is None else self._recorder.now()
        await _emit(emit, self._push(CallStarted(call, self._plan.tool(call.recipient))))
        async with aclosing(self._calls.run(call)) as events:
            async for event in events:
                if isinstance(event, ToolProgress):
                    await _emit(emit, self._push(event))
                else:
                    await self._calls.settled()
                    if self._recorder is not None:
                        self._recorder.add_call(call.recipient, started_ms)
                    return event
        raise AssertionError("the last event of a call is its result")

    async def _turn_with(
        self, call: ToolCall, result: ToolResult, emit: Emit, *, ran: bool
    ) -> Turn | None:
        """The turn that begins with the result of the call, which is emitted."""
        ids = self._turn.history
        message, added = await render_result(call, result.text, self._turn.room(len(ids)))
        if self._summaries is not None:
            self._summaries.protect(result.text)
        tool = self._plan.tool(call.recipient)
        await _emit(emit, self._push(CallEnded(call, tool, result, message, ran)))
        plan = replace(self._plan, constraint=await self._next_constraint())
        turn = self._turn.following(plan, (*ids, *added), self._tokens_left())
        if turn is None:
            await self._finish(self._whole_so_far("length"), emit)
        return turn

    async def _next_constraint(self) -> Constraint:
        """What the next turn may sample."""
        now = self._plan.constraint
        if self._forced:
            grammar = None if now.grammar is None else now.answer_grammar
            return replace(now, grammar=grammar, reasoned_grammar=None, prefill=final_headers()[0])
        if now.spec is None or now.grammar is None:
            return now
        reasoned = self._earlier[-1].usage.reasoning if self._earlier else 0
        spec = after_hosted_call(now.spec, reasoned)
        if spec == now.spec:
            return now
        size = threads.counted(len(now.grammar), threads.MOST_SMALL)
        return await threads.run(partial(_with_spec, now, spec), size)

    @property
    def _plan(self) -> TurnPlan:
        plan = self._turn.plan
        assert isinstance(plan, TurnPlan)
        return plan

    def _tokens_left(self) -> int | None:
        """How many tokens the answer may still sample; None for no limit."""
        if self._plan.max_tokens is None:
            return None
        return self._plan.max_tokens - sum(each.usage.output for each in self._earlier)

    async def _finish(
        self, finished: TurnFinished, emit: Emit, events: Sequence[WireEvent] = ()
    ) -> None:
        """Emit `events` and the answer's last ones."""
        if self._recorder is not None:
            finished = replace(finished, record=self._recorder.record)
        if self._summaries is not None:
            finished = replace(finished, summaries=self._summaries.totals)
        await emit([*events, *self._push(finished), *self._last_events()])
        self._meter.ended(finished.reason)

    def _whole_so_far(self, reason: FinishReason) -> TurnFinished:
        """The last event of an answer that ends between two turns."""
        if not self._earlier:
            return TurnFinished(reason, Usage(0))
        *self._earlier, last = self._earlier
        return self._whole(replace(last, reason=reason))

    def _whole(self, finished: TurnFinished) -> TurnFinished:
        """The last event of the answer, from that of its last turn."""
        if not self._earlier:
            return finished
        prompt = self._earlier[0].prompt_token_ids
        usages = [each.usage for each in (*self._earlier, finished)]
        later = usages[1:]
        usage = Usage(
            input=sum(each.input for each in usages),
            cached=sum(each.cached for each in usages),
            output=sum(each.output for each in usages),
            reasoning=sum(each.reasoning for each in usages),
            later_input=sum(each.input for each in later),
            later_cached=sum(each.cached for each in later),
        )
        tokens = (*finished.prompt_token_ids[len(prompt) :], *finished.token_ids)
        return TurnFinished(finished.reason, usage, prompt, tokens)

    def _push(self, event: TurnEvent) -> list[WireEvent]:
        return self._outbound.push(event)

    def _wire_events(self, batch: Sequence[TurnEvent]) -> list[WireEvent]:
        events: list[WireEvent] = []
        push = self._outbound.push
        for event in batch:
            events += push(event)
        return events


async def _emit(emit: Emit, events: Sequence[WireEvent]) -> None:
    """Emit events; an API may have none for what happened."""
    if events:
        await emit(events)


def _with_spec(constraint: Constraint, spec: GrammarSpec) -> Constraint:
    """The constraint of a later turn, whose grammars are written from `spec`."""
    return replace(
        constraint,
        spec=spec,
        grammar=turn_grammar(spec),
        reasoned_grammar=reasoned_grammar(spec),
        prefill=(),
    )
