"""What compiling a request of either API takes, and what it makes."""

from dataclasses import dataclass

from server.generation.plan import TurnPlan
from server.inbound.grammar import Masking
from server.inbound.tools import Tools
from server.replay.content import Policy
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.store.responses.base import Store, StoredResponse


@dataclass(frozen=True, slots=True)
class CompileContext:
    """What a request is compiled with.

    owner: the principal whose stored objects the request may name. today: `YYYY-MM-DD`; a stored
    conversation keeps its first one. unsupported: what becomes of input that the model cannot read.
    previous: a previous response that is not in the store, or not with its history. may_be_empty:
    a Responses request without input that continues nothing is compiled, too.
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
    """A request that can be sampled.

    plans: one for each answer that it asks for; they differ in their seeds alone.
    """

    plans: tuple[TurnPlan, ...]
    tools: Tools
