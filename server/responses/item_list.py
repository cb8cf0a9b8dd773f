"""Stored items as clients see them: one of them, or a list.

Answers with large ones are made on a thread.
"""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.responses import Response

from server import threads
from server.context import Context
from server.http.answers.answer import json_response
from server.outbound.listing import complete_item, list_object
from server.outbound.raw_reasoning import redaction_for
from server.outbound.redacted import redacted_item
from server.store.items import Item


async def one_item(context: Context, item: Item) -> Response:
    """The item alone."""
    return await _answer(context, [item], lambda shown: shown[0])


async def item_list(context: Context, items: Sequence[Item], *, has_more: bool) -> Response:
    """The API's list object with the items of a page."""
    return await _answer(context, list(items), lambda shown: list_object(shown, has_more=has_more))


async def _answer(
    context: Context, items: list[Item], body: Callable[[list[Item]], dict[str, Any]]
) -> Response:
    """The body made of items with all required fields, without reasoning that the server hides."""
    redact = redaction_for(context.settings, redacted_item)

    def made() -> Response:
        return json_response(body([redact(complete_item(item)) for item in items]))

    return await threads.run(made, threads.size_of(items))
