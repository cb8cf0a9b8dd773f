"""`/v1/chat/completions` and `/{id}`: stored chat completions (`store: true`).

Source: https://platform.openai.com/docs/api-reference/chat
"""

from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.errors import NotFound
from server.http.answers.answer import json_response
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.inbound.queries import read_filter, read_metadata, read_paging
from server.outbound.listing import list_object, paginate
from server.outbound.raw_reasoning import redaction_for
from server.outbound.redacted import redacted_completion, redacted_message
from server.schemas.chat import UpdateChatCompletion

T = TypeVar("T")

router = APIRouter(prefix="/v1/chat/completions")


@router.get("")
async def list_chat_completions(request: Request) -> Response:
    """The API key's completions, filtered by `model` and `metadata[KEY]` if the query has these."""
    owner = owner_of(request)
    parameters = request.query_params
    query = read_paging(parameters)
    model, metadata = read_filter(parameters, "model"), read_metadata(parameters)
    context = context_of(request)
    completions = context.store.chat_completions
    found = await completions.list(owner, query, model=model, metadata=metadata)
    redact = redaction_for(context.settings, redacted_completion)
    return json_response(list_object(list(map(redact, found.entries)), has_more=found.has_more))


@router.get("/{completion_id}")
async def retrieve_chat_completion(request: Request, completion_id: str) -> Response:
    """A stored completion. The status is 404 for one that another API key owns."""
    owner = owner_of(request)
    completion = await context_of(request).store.chat_completions.get(owner, completion_id)
    return _redacted_response(request, _found(completion, completion_id))


@router.post("/{completion_id}")
async def update_chat_completion(request: Request, completion_id: str) -> Response:
    """Replace a stored completion's metadata."""
    owner = owner_of(request)
    body = await json_body.parse(request, UpdateChatCompletion)
    completions = context_of(request).store.chat_completions
    updated = await completions.annotate(owner, completion_id, body.metadata or {})
    return _redacted_response(request, _found(updated, completion_id))


@router.delete("/{completion_id}")
async def delete_chat_completion(request: Request, completion_id: str) -> Response:
    """Delete a stored completion."""
    owner = owner_of(request)
    if not await context_of(request).store.chat_completions.delete(owner, completion_id):
        raise _not_found(completion_id)
    return json_response(
        {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}
    )


@router.get("/{completion_id}/messages")
async def list_chat_completion_messages(request: Request, completion_id: str) -> Response:
    """The messages of the request that made a stored completion."""
    query = read_paging(request.query_params)
    owner = owner_of(request)
    found = await context_of(request).store.chat_completions.messages(owner, completion_id)
    redact = redaction_for(context_of(request).settings, redacted_message)
    page = paginate(_found(found, completion_id), query)
    return json_response({**page, "data": list(map(redact, page["data"]))})


def _redacted_response(request: Request, completion: dict[str, Any]) -> Response:
    return json_response(
        redaction_for(context_of(request).settings, redacted_completion)(completion)
    )


def _found(value: T | None, completion_id: str) -> T:
    """What the store has of a completion. Raises NotFound for None."""
    if value is None:
        raise _not_found(completion_id)
    return value


def _not_found(completion_id: str) -> NotFound:
    return NotFound(f"Chat completion with id '{completion_id}' not found.", param="completion_id")
