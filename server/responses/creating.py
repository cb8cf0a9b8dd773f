"""Create a response from a request, for HTTP and WebSocket."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from server.context import Context
from server.errors import InvalidRequest
from server.generation.answer_spec import AnswerSpec, LastEvents
from server.generation.plan import Constraint
from server.generation.recording import Recorder
from server.generation.runs import Encode, Run, WireEvent
from server.http.answers.backlog import Feed
from server.ids import new_id
from server.inbound.responses import CompiledResponse, compile
from server.outbound.citations import log_dropped, rewriters
from server.outbound.raw_reasoning import refuse_if_reasoning_hidden
from server.outbound.responses.events import ResponsesOutbound
from server.persistence.response_journal import Ended, ResponseJournal
from server.persistence.stored_stream import stream_stored
from server.replay.sealed_items import INCLUDE
from server.responses.response_object import response_object
from server.schemas.responses import RECORD, CreateResponse
from server.store.responses.base import StoredResponse
from server.tools.base import ToolSession, tool_state


@dataclass(frozen=True, slots=True)
class StartedResponse:
    """A response before its first token, and the run that makes it.

    stored: the response as it is stored, or would be.
    ended: the same with its terminal event, from the object of that event.
    """

    run: Run
    stored: StoredResponse
    ended: Ended

    def feed(self, context: Context, encode: Encode) -> Feed:
        """The events for a client, who can read them from the store where that has them."""
        stored = partial(stream_stored, context.store, self.stored.owner, self.stored.id)
        return context.feed(self.run, encode, stored=stored if self.run.has_journal else None)


def _check(request: CreateResponse, context: Context) -> None:
    """Raises InvalidRequest for options that exclude each other, or that the server refuses."""
    if request.background and request.store is False:
        problem = "'store' must not be false where 'background' is true."
        raise InvalidRequest(problem, param="store")
    if request.return_token_ids:
        refuse_if_reasoning_hidden(context.settings, "'return_token_ids'", param="return_token_ids")
    if _is_recorded(request):
        refuse_if_reasoning_hidden(context.settings, f"'{RECORD}'", param="include")


def _is_recorded(request: CreateResponse) -> bool:
    return RECORD in (request.include or ())


async def create(
    context: Context,
    owner: str,
    request: CreateResponse,
    *,
    previous: StoredResponse | None = None,
    generate: bool = True,
    constraint: Constraint | None = None,
) -> StartedResponse:
    """Start a response.

    context: the server's shared objects.
    owner: the API key's digest.
    request: the request, validated.
    previous: a previous response that is not in the store, or not with its history.
    generate: False makes a response without output, which a later request continues.
    constraint: replaces the constraint that the request asks for.

    Raises APIError if the request is invalid, or cannot be served now.
    """
    _check(request, context)
    background = bool(request.background)
    model, response_id = context.model(request.model), new_id("resp")
    compiled = await compile(
        request,
        context.compiling(owner, response_id, previous=previous, may_be_empty=not generate),
    )
    if constraint is not None:
        compiled = replace(compiled, plans=(replace(compiled.plan, constraint=constraint),))
    response = response_object(
        request, compiled, response_id=response_id, model=model, created_at=int(time.time())
    )
    sessions = compiled.sessions[0]
    outbound = _outbound(context, owner, request, response, compiled)
    started = compiled.started(owner, response)
    ended = _ending(started, outbound, sessions)
    journal = None
    if response["store"]:
        journal = ResponseJournal(
            context.store, started, ended, store_first=background, retry=context.retry
        )
    if generate:
        spec = AnswerSpec(
            compiled.plan,
            outbound,
            response_id,
            journal=journal,
            background=background,
            sessions=sessions,
            last_events=_remembering(context, owner, response, outbound, sessions),
            answered=compiled.answered,
            recorder=Recorder() if _is_recorded(request) else None,
        )
        run = await context.gateway.start(spec)
    else:
        await compiled.close(response_id)
        run = await context.gateway.start_empty(outbound, response_id, journal=journal)
    return StartedResponse(run, started, ended)


def _outbound(
    context: Context,
    owner: str,
    request: CreateResponse,
    response: dict[str, Any],
    compiled: CompiledResponse,
) -> ResponsesOutbound:
    """What makes the events of the response. response: the object before its first token."""
    sessions = compiled.sessions[0]
    is_json = response["text"]["format"]["type"] != "text"
    include = frozenset(request.include or ())
    return ResponsesOutbound(
        response,
        compiled.plan,
        hide_reasoning=compiled.hidden or context.settings.hides_reasoning,
        show_ids=bool(request.return_token_ids),
        seal=partial(context.sealer.seal, owner) if INCLUDE in include else None,
        include=include,
        rewriter=rewriters(sessions, json=is_json),
        opening=tuple(item for each in sessions for item in each.declaration.opening),
    )


def _remembering(
    context: Context,
    owner: str,
    response: dict[str, Any],
    outbound: ResponsesOutbound,
    sessions: Sequence[ToolSession],
) -> LastEvents:
    """What remembers, when the answer is complete, what the store does not have of its tools.

    That is the state of those that can be cited, and all calls where the answer is not stored.
    """

    def remember() -> tuple[WireEvent, ...]:
        log_dropped(response["id"], outbound.dropped_citations)
        calls = outbound.hosted_calls
        if not response["store"]:
            context.recalled_calls.remember(owner, calls)
        citing = [each for each in sessions if each.declaration.cites]
        # A client may leave out the items of other tools.
        kinds = {each.declaration.item for each in citing}
        ids = [call.item["id"] for call in calls if call.item["type"] in kinds]
        if ids and (state := tool_state(citing)):
            context.recalled_states.remember(owner, ids[-1], state)
        return ()

    return remember


def _ending(
    started: StoredResponse, outbound: ResponsesOutbound, sessions: Sequence[ToolSession]
) -> Ended:
    """What makes the stored form of the response from its last object."""

    def ended(response: dict[str, Any]) -> StoredResponse:
        messages, results = outbound.messages_by_item_id, outbound.results_by_item_id
        return started.ended(response, messages, results, tool_state(sessions))

    return ended
