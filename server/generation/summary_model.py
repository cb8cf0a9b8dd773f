"""This server's own engine as the model that writes summaries.

It samples in free slots only, with the lowest priority, and gives its slot back where a request
needs it.
"""

from contextlib import aclosing
from itertools import count

from adapters.base import Backend, SamplingParams
from adapters.errors import BackendError
from harmony.grammar import GrammarSpec, SchemaJson, answer_grammar, final_headers
from harmony.messages import (
    Author,
    Channel,
    Conversation,
    DeveloperContent,
    Effort,
    Message,
    Role,
    SystemContent,
)
from server.errors import APIError
from server.generation.admission import Admission, NoSpareSlot
from server.generation.plan import Constraint, TurnPlan
from server.generation.turn import prepare
from server.generation.turn_events import MessageClosed, TurnEvent, TurnFinished
from server.summaries.base import NoCapacity, SummaryFailed, SummaryUsage
from server.summaries.model import Completion
from server.summaries.prompt import SummaryPrompt

PRIORITY = 1 << 16
"""Below that of every request; lower values are served first."""

_HEADER = final_headers()[1]  # with the content type JSON


class EngineModel:
    """Implements `server.summaries.model.SummaryModel`.

    masks: whether grammars constrain the engine's sampling. Without masks, an answer may be no JSON
    object, and its summary fails.
    """

    def __init__(self, backend: Backend, admission: Admission, *, masks: bool) -> None:
        self._backend = backend
        self._admission = admission
        self._masks = masks
        self._numbers = count()

    async def complete(self, prompt: SummaryPrompt) -> Completion:
        """Sample the answer, which begins with the header of a final message: no reasoning."""
        try:
            async with self._admission.spare_slot():
                return await self._sample(prompt)
        except NoSpareSlot as error:
            raise NoCapacity from error
        except (APIError, BackendError) as error:
            raise SummaryFailed(f"the engine failed: {type(error).__name__}") from error

    async def close(self) -> None:
        """Nothing to close: the engine belongs to the application."""

    async def _sample(self, prompt: SummaryPrompt) -> Completion:
        plan = _plan(prompt, masks=self._masks)
        turn = await prepare(plan, self._backend, f"summary-{next(self._numbers)}")
        events: list[TurnEvent] = []
        async with aclosing(turn.chunks()) as chunks:
            async for chunk in chunks:
                events += turn.read(chunk)
                if turn.ended:
                    events += turn.finish()
                    break
        if not events or not isinstance(finished := events[-1], TurnFinished):
            raise SummaryFailed("the engine ended without a finish reason")
        closed = [each for each in events if isinstance(each, MessageClosed)]
        text = "".join(
            str(each.message.content) for each in closed if each.header.channel is Channel.FINAL
        )
        return Completion(text, SummaryUsage(finished.usage.input, finished.usage.output))


def _plan(prompt: SummaryPrompt, *, masks: bool) -> TurnPlan:
    spec = GrammarSpec(answer=SchemaJson(prompt.schema), reasoning=False, preambles=False)
    grammar = answer_grammar(spec) if masks else None
    messages = (
        Message(Author(Role.SYSTEM), SystemContent(effort=Effort.LOW)),
        Message(Author(Role.DEVELOPER), DeveloperContent(prompt.instructions)),
        Message(Author(Role.USER), prompt.input),
    )
    return TurnPlan(
        conversation=Conversation(messages),
        sampling=SamplingParams(temperature=0),
        max_tokens=prompt.max_tokens,
        effort=None,
        constraint=Constraint(grammar, grammar, prefill=_HEADER),
        # No prompt of a client finds reasoning that is cached here.
        cache_salt="summaries",
        priority=PRIORITY,
    )
