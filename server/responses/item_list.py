"""Stored items as clients see them: one of them, or a list."""

from collections.abc import Sequence

from starlette.responses import Response

from server import threads
from server.context import Context
from server.http.answers.answer import json_response
from server.outbound.listing import complete_item, list_object
from server.outbound.raw_reasoning import redaction_for
from server.outbound.redacted import redacted_item
from server.store.items import Item


def shown_item(context: Context, item: Item) -> Item:
    """The item with all required fields, and without reasoning that the server hides."""
    return redaction_for(context.settings, redacted_item)(complete_item(item))


async def item_list(context: Context, items: Sequence[Item], *, has_more: bool) -> Response:
    """The API's list object with the items of a page, which is made on a thread if it is large."""

    def made() -> Response:
        shown = [shown_item(context, item) for item in items]
        return json_response(list_object(shown, has_more=has_more))

    return await threads.run(made, threads.size_of(list(items)))
