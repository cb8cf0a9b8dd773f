"""`/v1/conversations`: stored conversations and their items.

Source: https://platform.openai.com/docs/api-reference/conversations
"""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server import threads
from server.context import context_of
from server.errors import NotFound
from server.http.answers.answer import json_response
from server.http.authentication import owner_of
from server.http.bodies import json_body
from server.ids import new_id
from server.inbound.options import today
from server.inbound.queries import read_paging
from server.outbound.previews import listed
from server.replay import items
from server.replay.prior_turns import conversation_not_found, refuse_large_conversation
from server.replay.sealed_items import unseal_items
from server.replay.sealing import SealedInput
from server.responses.item_list import item_list, one_item
from server.schemas.base import note_unknown
from server.schemas.conversations import CreateConversation, CreateItems, UpdateConversation
from server.schemas.fields import invalid
from server.store.conversations.base import Conversation, ConversationStore
from server.store.items import Item, StoredItem

T = TypeVar("T")

router = APIRouter(prefix="/v1/conversations")

MAX_ITEMS = 20
"""How many items one request may add."""


@router.post("")
async def create_conversation(request: Request) -> Response:
    """Create a conversation, with up to 20 items."""
    owner = owner_of(request)
    # The SDK sends no body for a conversation without items and metadata.
    body = await json_body.parse_or_none(request, CreateConversation) or CreateConversation()
    note_unknown(body, "Conversations")
    items_to_add = await _read_items(request, body.items)
    conversation = Conversation(
        owner, new_id("conv"), int(time.time()), today(), body.metadata or {}
    )
    await _store(request).create(conversation, items_to_add)
    return json_response(conversation.to_api())


@router.get("")
async def list_conversations(request: Request) -> Response:
    """The API key's conversations, the newest first unless `order` is `asc`.

    OpenAI's API has no such list.
    """
    owner = owner_of(request)
    query = read_paging(request.query_params, order="desc")
    return json_response(listed(await _store(request).list(owner, query)))


@router.get("/{conversation_id}")
async def retrieve_conversation(request: Request, conversation_id: str) -> Response:
    """A conversation. The status is 404 for one that another API key owns."""
    return json_response((await _conversation(request, conversation_id)).to_api())


@router.post("/{conversation_id}")
async def update_conversation(request: Request, conversation_id: str) -> Response:
    """Replace a conversation's metadata."""
    owner = owner_of(request)
    body = await json_body.parse(request, UpdateConversation)
    updated = await _store(request).annotate(owner, conversation_id, body.metadata or {})
    return json_response(_found(updated, conversation_id).to_api())


@router.delete("/{conversation_id}")
async def delete_conversation(request: Request, conversation_id: str) -> Response:
    """Delete a conversation and its items. Its responses stay, without the items they read."""
    owner = owner_of(request)
    if not await _store(request).delete(owner, conversation_id):
        raise _not_found(conversation_id)
    return json_response({"id": conversation_id, "object": "conversation.deleted", "deleted": True})


@router.post("/{conversation_id}/items")
async def create_items(request: Request, conversation_id: str) -> Response:
    """Add up to 20 items to the end of the conversation."""
    owner = owner_of(request)
    body = await json_body.parse(request, CreateItems)
    size = _found(await _store(request).size(owner, conversation_id), conversation_id)
    refuse_large_conversation(size, "items")
    items_to_add = await _read_items(request, body.items, conversation_id)
    if not items_to_add:
        raise invalid("items", "expected at least one item")
    if not await _store(request).add(owner, conversation_id, items_to_add):
        raise _not_found(conversation_id)
    added = [stored.item for stored in items_to_add]
    return await item_list(context_of(request), added, has_more=False)


@router.get("/{conversation_id}/items")
async def list_items(request: Request, conversation_id: str) -> Response:
    """The conversation's items, the newest first unless `order` is `asc`."""
    owner = owner_of(request)
    query = read_paging(request.query_params, order="desc")
    found = await _store(request).page_of_items(owner, conversation_id, query)
    page = _found(found, conversation_id)
    return await item_list(context_of(request), page.entries, has_more=page.has_more)


@router.get("/{conversation_id}/items/{item_id}")
async def retrieve_item(request: Request, conversation_id: str, item_id: str) -> Response:
    """One item of the conversation."""
    await _conversation(request, conversation_id)
    owner = owner_of(request)
    item = await _store(request).item(owner, conversation_id, item_id)
    if item is None:
        raise _item_not_found(item_id)
    return await one_item(context_of(request), item)


@router.delete("/{conversation_id}/items/{item_id}")
async def delete_item(request: Request, conversation_id: str, item_id: str) -> Response:
    """Remove an item from the conversation. Returns the conversation."""
    owner = owner_of(request)
    conversation = await _conversation(request, conversation_id)
    if not await _store(request).remove(owner, conversation_id, item_id):
        raise _item_not_found(item_id)
    return json_response(conversation.to_api())


async def _read_items(
    request: Request, value: Any, conversation_id: str | None = None
) -> tuple[StoredItem, ...]:
    """The request's items in the form in which they are stored.

    An item that the model wrote comes with the model's message, if that is known. value: the
    request's `items`. conversation_id: that of the conversation to which they are added; None for a
    new one. Raises InvalidRequest if an item is invalid, alone or after those of the conversation.
    """
    owner = owner_of(request)
    context = context_of(request)
    if not isinstance(value, list | None):
        raise invalid("items", "expected an array of items")
    if value is not None and len(value) > MAX_ITEMS:
        raise invalid("items", f"expected at most {MAX_ITEMS} items")
    normalised = items.normalise(value, "items")
    before = await _referred_to(request, conversation_id, normalised) if conversation_id else ()
    known = await context.store.items(owner, items.ids_in(value))

    def resolved() -> tuple[StoredItem, ...]:
        items.refuse_equal_ids(normalised, before, "items")
        seals = SealedInput(context.sealer, owner, context.context_length)
        opened = unseal_items(normalised, seals.open, "items")
        policy = context.settings.unsupported_input
        stored_items = items.resolve(normalised, {**opened, **known}, "items", unsupported=policy)
        items.messages(before, stored_items, "items")
        return stored_items

    examined = [value, *(stored.item for stored in (*before, *known.values()))]
    return await threads.run(resolved, threads.size_of(examined))


async def _conversation(request: Request, conversation_id: str) -> Conversation:
    owner = owner_of(request)
    return _found(await _store(request).get(owner, conversation_id), conversation_id)


async def _referred_to(
    request: Request, conversation_id: str, new: Sequence[Item]
) -> Sequence[StoredItem]:
    """The conversation's items that have the ids of new ones, or the calls of new results."""
    owner = owner_of(request)
    call_ids = [item["call_id"] for item in new if isinstance(item.get("call_id"), str)]
    ids = [item["id"] for item in new]
    found = await _store(request).find(owner, conversation_id, ids, call_ids)
    return _found(found, conversation_id)


def _found(value: T | None, conversation_id: str) -> T:
    """What the store has of a conversation. Raises NotFound for None."""
    if value is None:
        raise _not_found(conversation_id)
    return value


def _store(request: Request) -> ConversationStore:
    return context_of(request).store.conversations


def _not_found(conversation_id: str) -> NotFound:
    return conversation_not_found(conversation_id, param="conversation_id")


def _item_not_found(item_id: str) -> NotFound:
    return NotFound(f"Item with id '{item_id}' not found.", param="item_id")
