"""What one answer is made from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.generation.metering import PromptCount
from server.generation.outbound_protocol import Outbound
from server.generation.plan import RawPlan, TurnPlan
from server.generation.recording import Recorder
from server.generation.runs import Journal, WireEvent
from server.generation.turn import SharedPrompt
from server.tools.base import AnsweredCall, ToolSession

LastEvents = Callable[[], Sequence[WireEvent]]


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """What one answer is made from.

    plan: the compiled request.
    outbound: makes the answer's wire events.
    request_id: names the run, also for the engine and in the log.
    journal: stores the wire events; None if the answer is not stored.
    background: whether the run continues without readers.
    last_events: called when the answer is complete; its events follow those of the last turn.
    sessions: those of the request's hosted tools, which are closed when the run ends, or does not
    start.
    answered: calls of an earlier answer that the client approved or refused. Approved ones run
    before the first turn; their results follow the plan's conversation.
    recorder: records the answer's samplings and calls; None for no record.
    prompt: that of the plan, if other answers have it, too.
    prompt_count: that of these answers; None for one alone.
    """

    plan: TurnPlan | RawPlan
    outbound: Outbound
    request_id: str
    journal: Journal | None = None
    background: bool = False
    last_events: LastEvents = tuple
    sessions: Sequence[ToolSession] = ()
    answered: Sequence[AnsweredCall] = ()
    recorder: Recorder | None = None
    prompt: SharedPrompt | None = None
    prompt_count: PromptCount | None = None
