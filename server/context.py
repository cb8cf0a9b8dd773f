"""The objects that routes share, made once for each application."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast

from starlette.requests import HTTPConnection

from server.errors import NotFound
from server.generation.gateway import Gateway
from server.generation.runs import Encode, Run
from server.http.answers.backlog import Feed, Stored
from server.http.bodies.budget import Budget
from server.http.traffic import Traffic
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.inbound.options import SummariesWhen, today
from server.persistence.retrying import RetryPolicy
from server.replay.recall import Recall
from server.replay.recalled_calls import RecalledCalls
from server.replay.sealing import Sealer
from server.replay.tool_states import RecalledStates
from server.settings import Settings
from server.store.files.library import FileLibrary
from server.store.responses.base import Store, StoredResponse
from server.telemetry.metrics import Metrics
from server.telemetry.readiness import Readiness
from server.tools.base import HostedTool
from server.tools.python.containers import ContainerService
from server.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Context:
    """The server's parts.

    created: when the model was loaded, in Unix seconds. draining: set once the server accepts no
    new requests and only finishes current ones. traffic: counts the requests, and what is open.
    """

    settings: Settings
    gateway: Gateway
    created: int
    store: Store
    body_budget: Budget
    files: FileLibrary
    containers: ContainerService
    toolbox: Toolbox
    readiness: Readiness
    metrics: Metrics
    recall: Recall = field(default_factory=Recall)
    recalled_states: RecalledStates = field(default_factory=RecalledStates)
    recalled_calls: RecalledCalls = field(default_factory=RecalledCalls)
    sealer: Sealer = field(default_factory=Sealer)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def models(self) -> tuple[str, ...]:
        """The served names; the first is the default."""
        return self.settings.model_names

    @property
    def tools(self) -> Mapping[str, HostedTool]:
        """The hosted tools, by the types that name them in a request."""
        return self.toolbox.by_type

    @property
    def retry(self) -> RetryPolicy:
        """How long stored answers wait for an unavailable store."""
        return RetryPolicy(self.settings.store_patience, lambda: self.gateway.runs.ending)

    @property
    def context_length(self) -> int:
        """The tokens of the model's context."""
        return self.gateway.backend.info.context_length

    @property
    def masking(self) -> Masking:
        """When grammars constrain the engine's sampling."""
        info = self.gateway.backend.info
        when = self.settings.constrain or ("always" if info.masks_are_cheap else "needed")
        return Masking(when, "grammar" in info.features, self.settings.parallel_calls)

    def compiling(
        self,
        owner: str,
        answer_id: str,
        *,
        previous: StoredResponse | None = None,
        may_be_empty: bool = False,
    ) -> CompileContext:
        """The context to compile a request of `owner` in; parameters as in CompileContext."""
        return CompileContext(
            owner=owner,
            today=today(),
            store=self.store,
            recall=self.recall,
            sealer=self.sealer,
            masking=self.masking,
            unsupported=self.settings.unsupported_input,
            previous=previous,
            may_be_empty=may_be_empty,
            answer_id=answer_id,
            tools=self.tools,
            tool_timeouts=self.settings.tool_timeouts,
            recalled_states=self.recalled_states,
            recalled_calls=self.recalled_calls,
            summaries=self._summaries,
            hides_reasoning=self.settings.hides_reasoning,
            context_length=self.context_length,
            cache_salt=self.cache_salt(owner),
        )

    def cache_salt(self, owner: str) -> str | None:
        """What separates the cached prompts of `owner` from others'; None where they are shared.

        It is not the owner itself, since engines behind URLs get it.
        """
        if self.settings.share_cache or len(self.settings.api_keys) < 2:
            return None
        return blake2b(owner.encode(), digest_size=16, person=b"cache salt").hexdigest()

    def feed(
        self, run: Run, encode: Encode, start: int = 0, *, stored: Stored | None = None
    ) -> Feed:
        """The run's events for a client, within the server's limit; parameters as in Feed."""
        return Feed(run, encode, self.settings.max_unread, start, stored)

    @property
    def _summaries(self) -> SummariesWhen:
        """Which answers have summaries of their reasoning."""
        if self.settings.summary_kind == "off":
            return "never"
        # Where raw reasoning is hidden, summaries are all that clients can show.
        return "default" if self.settings.hides_reasoning else "requested"

    def model(self, name: str | None) -> str:
        """The served name of the requested model; the default for None. Raises NotFound."""
        if name is None:
            return self.models[0]
        if name not in self.models:
            raise NotFound(
                f"The model `{name}` does not exist or you do not have access to it.",
                param="model",
                code="model_not_found",
            )
        return name


def context_of(connection: HTTPConnection) -> Context:
    """The context of the connection's application."""
    return cast(Context, connection.app.state.context)
