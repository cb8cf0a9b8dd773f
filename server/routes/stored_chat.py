"""`/v1/chat/completions/{id}` and the list: completions that were made with `store: true`.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.errors import NotFound
from server.http import json_body
from server.http.answers import json_response
from server.http.authentication import authenticate
from server.inbound.paging import read_metadata, read_model, read_paging
from server.outbound.hidden import shown_by
from server.outbound.listing import page, whole_page
from server.outbound.redacted import redacted_completion, redacted_message
from server.schemas.chat import UpdateChatCompletion
from server.store.chat_completions.base import ListFilter, StoredChatCompletion

router = APIRouter(prefix="/v1/chat/completions")


@router.get("")
async def list_chat_completions(request: Request) -> Response:
    """The owner's completions, by `model` and `metadata[KEY]` where these are given."""
    owner = authenticate(request).id
    query = request.query_params
    paging = read_paging(query)
    wanted = ListFilter(
        paging.limit, paging.order, paging.after, read_model(query), read_metadata(query)
    )
    context = context_of(request)
    listed = await context.store.chat_completions.list(owner, wanted)
    show = shown_by(context.settings, redacted_completion)
    return json_response(whole_page(list(map(show, listed.completions)), has_more=listed.has_more))


@router.get("/{completion_id}")
async def retrieve_chat_completion(request: Request, completion_id: str) -> Response:
    """A stored completion; 404 for any other, and for another key's."""
    return _shown(request, (await _stored(request, completion_id)).completion)


@router.post("/{completion_id}")
async def update_chat_completion(request: Request, completion_id: str) -> Response:
    """Give a stored completion other metadata."""
    owner = authenticate(request).id
    wanted = await json_body.parse(request, UpdateChatCompletion)
    completions = context_of(request).store.chat_completions
    changed = await completions.annotate(owner, completion_id, wanted.metadata or {})
    if changed is None:
        raise _not_found(completion_id)
    return _shown(request, changed.completion)


@router.delete("/{completion_id}")
async def delete_chat_completion(request: Request, completion_id: str) -> Response:
    """Forget a stored completion."""
    owner = authenticate(request).id
    if not await context_of(request).store.chat_completions.delete(owner, completion_id):
        raise _not_found(completion_id)
    return json_response(
        {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}
    )


@router.get("/{completion_id}/messages")
async def list_chat_completion_messages(request: Request, completion_id: str) -> Response:
    """The messages of the request that made the completion."""
    paging = read_paging(request.query_params)
    stored = await _stored(request, completion_id)
    show = shown_by(context_of(request).settings, redacted_message)
    return json_response(page(list(map(show, stored.messages)), paging))


def _shown(request: Request, completion: dict[str, Any]) -> Response:
    return json_response(shown_by(context_of(request).settings, redacted_completion)(completion))


async def _stored(request: Request, completion_id: str) -> StoredChatCompletion:
    owner = authenticate(request).id
    stored = await context_of(request).store.chat_completions.get(owner, completion_id)
    if stored is None:
        raise _not_found(completion_id)
    return stored


def _not_found(completion_id: str) -> NotFound:
    return NotFound(f"Chat completion with id '{completion_id}' not found.", param="completion_id")
