"""`GET /v1/responses`, `/v1/responses/{id}` and below: responses that are stored or in progress.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from server.context import Context, context_of
from server.errors import InvalidRequest, NotFound
from server.generation.runs import WireEvent
from server.http.answers import sse
from server.http.answers.answer import json_response
from server.http.authentication import owner_of
from server.inbound.queries import read_boolean, read_paging
from server.outbound.event_bytes import named
from server.outbound.previews import LISTED_FIELDS, listed
from server.outbound.raw_reasoning import redaction_for, refuse_if_reasoning_hidden
from server.outbound.redacted import redacted_event, redacted_response
from server.persistence.stored_stream import (
    current_response,
    current_status,
    stream_stored,
    wait_until_ended,
)
from server.responses.item_list import item_list
from server.responses.stored_record import rendered_record
from server.schemas.fields import digits, invalid
from server.schemas.responses import RECORD
from server.store.lists import Page
from server.store.responses.base import UNFINISHED

router = APIRouter(prefix="/v1/responses")

_MOST_SEQUENCE_NUMBER = 999_999_999


@router.get("")
async def list_responses(request: Request) -> Response:
    """The API key's responses that nothing continues, the newest first unless `order` is `asc`.

    OpenAI's API has no such list.
    """
    owner = owner_of(request)
    query = read_paging(request.query_params, order="desc")
    store = context_of(request).store
    found = await store.list(owner, query)
    entries = []
    for entry in found.entries:
        status = await current_status(store, owner, entry.object)
        entries.append(replace(entry, object={**entry.object, "status": status}))
    return json_response(listed(Page(entries, found.has_more), LISTED_FIELDS))


@router.get("/{response_id}")
async def retrieve_response(request: Request, response_id: str) -> Response:
    """A response in its current state, or with `stream=true` its events after `starting_after`.

    With `include[]=gpt_oss:record` it has a record, even if it was made without one.
    The status is 404 for a response that is not stored, or that another API key owns.
    """
    owner = owner_of(request)
    context = context_of(request)
    first = _first_position(request.query_params)
    response = await _shown(request, response_id)
    if first is None:
        return json_response(await _with_record(request, response))
    redact = redaction_for(context.settings, redacted_event)

    def encode(event: WireEvent) -> Sequence[bytes]:
        return named(redact(event))

    stored = partial(stream_stored, context.store, owner, response_id)
    if run := context.gateway.runs.find(response_id):
        return sse.RunStream(context.feed(run, encode, first, stored=stored))
    return sse.stream_batches(stored(first), encode)


@router.delete("/{response_id}")
async def delete_response(request: Request, response_id: str) -> Response:
    """Delete a response; one in progress is cancelled.

    Responses that continue it keep their history. The status is 404 as for GET.
    """
    owner = owner_of(request)
    context = context_of(request)
    if not await context.store.delete(owner, response_id):
        raise _not_found(response_id)
    if run := context.gateway.runs.find(response_id):
        run.cancel()
    return json_response({"id": response_id, "object": "response", "deleted": True})


@router.post("/{response_id}/cancel")
async def cancel_response(request: Request, response_id: str) -> Response:
    """Cancel a background response, on any gateway. One that has ended stays as it is."""
    owner = owner_of(request)
    context = context_of(request)
    response = await _shown(request, response_id)
    if not response["background"]:
        raise InvalidRequest(
            "Only responses that were created with `background: true` can be cancelled.",
            param="response_id",
        )
    if response["status"] in UNFINISHED:
        await _cancel(context, response_id)
        await wait_until_ended(context.store, context.gateway.runs, owner, response_id)
        response = await _shown(request, response_id)
    return json_response(response)


@router.get("/{response_id}/input_items")
async def list_input_items(request: Request, response_id: str) -> Response:
    """The response's input items, those of earlier responses included; the newest first."""
    owner = owner_of(request)
    query = read_paging(request.query_params, order="desc")
    context = context_of(request)
    page = await context.store.input_items(owner, response_id, query)
    if page is None:
        raise _not_found(response_id)
    return await item_list(context, page.entries, has_more=page.has_more)


async def _cancel(context: Context, response_id: str) -> None:
    if run := context.gateway.runs.find(response_id):
        run.cancel()
    else:
        await context.store.cancel(response_id)


async def _shown(request: Request, response_id: str) -> dict[str, Any]:
    owner = owner_of(request)
    context = context_of(request)
    response = await current_response(context.store, owner, response_id)
    if response is None:
        raise _not_found(response_id)
    return redaction_for(context.settings, redacted_response)(response)


async def _with_record(request: Request, response: dict[str, Any]) -> dict[str, Any]:
    """The response, with the record that the query asks for. Raises APIError."""
    query, context = request.query_params, context_of(request)
    if RECORD not in (*query.getlist("include"), *query.getlist("include[]")):
        return response
    refuse_if_reasoning_hidden(context.settings, f"'{RECORD}'", param="include")
    if RECORD in response or response["status"] in UNFINISHED:
        return response
    stored = await context.store.get(owner_of(request), response["id"])
    if stored is None:
        raise _not_found(response["id"])
    return {**response, RECORD: await rendered_record(context, stored)}


def _first_position(query: QueryParams) -> int | None:
    """The position of the first event to send; None if the query asks for no stream."""
    is_stream, after = read_boolean(query, "stream"), query.get("starting_after")
    if after is None:
        return 0 if is_stream else None
    if not is_stream:
        raise invalid("starting_after", "it goes with stream=true")
    number = digits(after, _MOST_SEQUENCE_NUMBER)
    if number is None:
        raise invalid("starting_after", "expected the sequence number of an event")
    return number + 1


def _not_found(response_id: str) -> NotFound:
    return NotFound(f"Response with id '{response_id}' not found.", param="response_id")
