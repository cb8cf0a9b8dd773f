"""The context in which requests are compiled, and their compiled form."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from adapters.base import CONTEXT_LENGTH
from server.generation.plan import TurnPlan
from server.inbound.grammar import Masking
from server.inbound.hosted import AnswerContext
from server.inbound.options import SummariesWhen
from server.inbound.tools import Tools
from server.replay.content import Policy
from server.replay.recall import Recall
from server.replay.recalled_calls import RecalledCalls
from server.replay.sealing import SealedInput, Sealer
from server.replay.tool_states import RecalledStates
from server.store.items import Item, ToolState
from server.store.responses.base import Store, StoredResponse
from server.tools.base import HostedTool, ToolSession
from server.tools.closing import close_sessions


@dataclass(frozen=True, slots=True)
class CompileContext:
    """The context in which a request is compiled.

    owner: the one whose stored objects the request may name.
    today: `YYYY-MM-DD`; continued conversations keep the date of their first turn.
    unsupported: what becomes of input that the model cannot read.
    previous: a previous response that is not in the store, or is there without its history.
    may_be_empty: whether a Responses request may have neither input nor earlier turns.
    answer_id: the id of the response or the completion that the request makes.
    tools: the server's hosted tools, by the types that name them in a request.
    tool_timeouts: seconds for one call of a hosted tool, by the tool's name.
    recalled_states: the states of tools after answers whose items may come back.
    recalled_calls: calls of hosted tools in answers that are not stored.
    summaries: which answers have summaries of their reasoning.
    hides_reasoning: whether clients get no raw reasoning. Reasoning that they send as plain text is
    then a summary or a guess, and is not used.
    is_new: whether the request was not compiled before. One that is compiled again for the record
    of its answer has run the calls that it approves, and its ids were accepted.
    context_length: of the model, in tokens. It limits what encrypted content may hold.
    cache_salt: as in `SamplingPlan`.
    """

    owner: str
    today: str
    store: Store
    recall: Recall
    sealer: Sealer
    masking: Masking
    unsupported: Policy = "placeholder"
    previous: StoredResponse | None = None
    may_be_empty: bool = False
    answer_id: str = ""
    tools: Mapping[str, HostedTool] = field(default_factory=dict)
    tool_timeouts: Mapping[str, float] = field(default_factory=dict)
    recalled_states: RecalledStates = field(default_factory=RecalledStates)
    recalled_calls: RecalledCalls = field(default_factory=RecalledCalls)
    summaries: SummariesWhen = "never"
    hides_reasoning: bool = False
    is_new: bool = True
    context_length: int = CONTEXT_LENGTH
    cache_salt: str | None = None

    def sealed_input(self) -> SealedInput:
        """Opens the seals of one request."""
        return SealedInput(self.sealer, self.owner, self.context_length)

    def of_answer(
        self,
        include: Iterable[str] | None,
        *,
        stored: bool,
        states: ToolState | None = None,
        history: tuple[Item, ...] = (),
    ) -> AnswerContext:
        """The context of the sessions of the request's answers.

        include: the request's field. stored: whether the answers are stored. states: as in
        `AnswerContext`. history: the items of hosted tools before the answer.
        """
        return AnswerContext(
            owner=self.owner,
            answer_id=self.answer_id,
            timeouts=self.tool_timeouts,
            states=states or {},
            include=frozenset(include or ()),
            stored=stored,
            history=history,
        )


@dataclass(frozen=True, slots=True)
class CompiledRequest:
    """A request in the form that the gateway samples.

    plans: one for each answer that the request asks for; only their seeds differ.
    tools: the request's tools; the hosted ones as the first plan has them. sessions: for each plan,
    the sessions of its hosted tools, which the run of the plan closes.
    """

    plans: tuple[TurnPlan, ...]
    tools: Tools
    sessions: tuple[tuple[ToolSession, ...], ...] = field(default=(), kw_only=True)

    async def close(self, request_id: str) -> None:
        """Close all sessions: the plans are not going to run. request_id: for the log."""
        await close_sessions(chain.from_iterable(self.sessions), request_id)
