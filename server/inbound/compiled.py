"""The context in which requests are compiled, and their compiled form."""

from dataclasses import dataclass, field

from server.generation.plan import TurnPlan
from server.inbound.grammar import Masking
from server.inbound.tools import Tools
from server.replay.content import Policy
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.store.responses.base import Store, StoredResponse
from server.tools.base import ToolSession


@dataclass(frozen=True, slots=True)
class CompileContext:
    """The context in which a request is compiled.

    owner: the principal whose stored objects the request may name.
    today: `YYYY-MM-DD`; continued conversations keep the date of their first turn.
    unsupported: what becomes of input that the model cannot read.
    previous: a previous response that is not in the store, or is there without its history.
    may_be_empty: whether a Responses request may have neither input nor earlier turns.
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


@dataclass(frozen=True, slots=True)
class CompiledRequest:
    """A request in the form that the gateway samples.

    plans: one for each answer that the request asks for; only their seeds differ.
    tools: the request's tools. sessions: for each plan, the sessions of its hosted tools, which the
    run of the plan closes.
    """

    plans: tuple[TurnPlan, ...]
    tools: Tools
    sessions: tuple[tuple[ToolSession, ...], ...] = field(default=(), kw_only=True)
