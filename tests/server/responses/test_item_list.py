"""Where the API's list objects of items are made."""

import threading
from typing import Any

import pytest

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from server.outbound.listing import complete_item
from server.responses import item_list
from server.settings import Settings
from server.threads import LARGE
from tests.contexts import new_context


@pytest.mark.parametrize(("length", "at_once"), [(1, True), (LARGE, False)])
async def test_a_large_list_is_made_on_a_thread(
    monkeypatch: pytest.MonkeyPatch, length: int, at_once: bool
) -> None:
    made_by: list[int] = []

    def noted(item: dict[str, Any]) -> dict[str, Any]:
        made_by.append(threading.get_ident())
        return complete_item(item)

    monkeypatch.setattr(item_list, "complete_item", noted)
    backend = ScriptedBackend(BackendConfig(None, {}, lambda _: [], lambda _: "", lambda: None))
    item = {"type": "message", "id": "msg_1", "role": "user", "content": "a" * length}
    await item_list.item_list(new_context(Settings(), backend), [item], has_more=False)
    assert (made_by == [threading.get_ident()]) is at_once
