"""Where answers with stored items are made."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.responses import Response

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from server.context import Context
from server.outbound.listing import complete_item
from server.responses import item_list as module
from server.responses.item_list import item_list, one_item
from server.settings import Settings
from server.store.items import Item
from server.threads import LARGE
from tests.contexts import new_context

Answer = Callable[[Context, Item], Awaitable[Response]]


async def list_of_one(context: Context, item: Item) -> Response:
    return await item_list(context, [item], has_more=False)


@pytest.mark.parametrize("answer", [one_item, list_of_one])
@pytest.mark.parametrize(("length", "at_once"), [(1, True), (LARGE, False)])
async def test_a_large_answer_is_made_on_a_thread(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, length: int, at_once: bool
) -> None:
    made_by: list[int] = []

    def noted(item: dict[str, Any]) -> dict[str, Any]:
        made_by.append(threading.get_ident())
        return complete_item(item)

    monkeypatch.setattr(module, "complete_item", noted)
    backend = ScriptedBackend(BackendConfig(None, {}, lambda _: [], lambda _: "", lambda: None))
    item = {"type": "message", "id": "msg_1", "role": "user", "content": "a" * length}
    await answer(new_context(Settings(), backend), item)
    assert (made_by == [threading.get_ident()]) is at_once
