"""`/v1/conversations`, and responses that belong to one."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from openai.types.conversations import Conversation, ConversationItemList

from server.replay import prior_turns
from server.store.conversations.memory import MemoryConversations
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.store.responses.sql import SqlStore

ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
PATH = "/v1/conversations"

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def created(app: Any, **body: Any) -> str:
    answer = await app.post(PATH, body)
    assert answer.status_code == 200, answer.text
    Conversation.model_validate(answer.json())
    return str(answer.json()["id"])


async def texts(app: Any, conversation: str) -> list[str]:
    listed = (await app.client.get(f"{PATH}/{conversation}/items?order=asc&limit=100")).json()
    if listed["data"]:
        ConversationItemList.model_validate(listed)
    return [item["content"][0]["text"] for item in listed["data"] if "content" in item]


async def respond(app: Any, conversation: Any, **body: Any) -> Any:
    return await app.post("/v1/responses", {"conversation": conversation} | body)


def result(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "1"}


async def test_an_item_with_an_id_that_the_conversation_has_is_refused(
    open_app: OpenApp, store: Store
) -> None:
    mine = user("hi") | {"id": "msg_1"}
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[mine])
        added = await app.post(f"{PATH}/{name}/items", {"items": [user("and"), mine]})
        answered = await respond(app, name, input=[mine])
        assert await texts(app, name) == ["hi"]
    for answer, param in ((added, "items.1.id"), (answered, "input.0.id")):
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param)
        assert error["code"] == "duplicate_item"


async def test_a_request_may_refer_to_an_item_of_a_conversation(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[user("Remember 42.")])
        (said,) = (await app.client.get(f"{PATH}/{name}/items")).json()["data"]
        body = {"input": [{"type": "item_reference", "id": said["id"]}]}
        answered = await app.post("/v1/responses", body)
        assert (await app.client.delete(f"{PATH}/{name}")).status_code == 200
        assert (await app.client.delete(f"/v1/responses/{answered.json()['id']}")).is_success
        lost = await app.post("/v1/responses", body)
    assert answered.status_code == 200
    assert "Remember 42." in app.prompts[0]
    assert lost.status_code == 404


async def test_a_large_conversation_takes_no_more(
    open_app: OpenApp, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prior_turns, "MAX_CONVERSATION_BYTES", 5000)
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[user("one")])
        items = {"items": [user("x" * 6000)]}
        assert (await app.post(f"{PATH}/{name}/items", items)).status_code == 200
        added = await app.post(f"{PATH}/{name}/items", {"items": [user("two")]})
        answered = await respond(app, name, input="two")
    for answer, param in ((added, "items"), (answered, "conversation")):
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param)
        assert error["code"] == "conversation_too_long"


async def test_to_add_items_does_not_read_the_conversation(
    open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[user("one"), call])
        monkeypatch.setattr(store.conversations, "read", None)
        for add in (user("two"), result("c")):
            answer = await app.post(f"{PATH}/{name}/items", {"items": [add]})
            assert answer.status_code == 200, answer.text
    await store.stop()


async def test_a_change_without_metadata_is_refused(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        name = await created(app, metadata={"topic": "x"})
        refused = await app.post(f"{PATH}/{name}", {})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "metadata"
        emptied = await app.post(f"{PATH}/{name}", {"metadata": None})
    assert emptied.json()["metadata"] == {}


async def test_a_conversation_is_stored_changed_and_deleted(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, metadata={"topic": "x"}, items=[user("hi")])
        url = f"{PATH}/{name}"
        shown = (await app.client.get(url)).json()
        assert (shown["object"], shown["metadata"]) == ("conversation", {"topic": "x"})
        changed = (await app.post(url, {"metadata": {"topic": "y"}})).json()
        assert changed == shown | {"metadata": {"topic": "y"}}
        deleted = (await app.client.delete(url)).json()
        assert deleted == {"id": name, "object": "conversation.deleted", "deleted": True}
        assert (await app.client.get(url)).status_code == 404
        assert (await app.client.delete(url)).status_code == 404


async def test_a_conversation_may_begin_empty(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.client.post(PATH)
        assert answer.json()["metadata"] == {}
        empty = (await app.client.get(f"{PATH}/{answer.json()['id']}/items")).json()
    assert (empty["data"], empty["first_id"]) == ([], None)


async def test_items_are_added_found_and_removed(open_app: OpenApp, store: Store) -> None:
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[user("one")])
        added = await app.post(f"{PATH}/{name}/items", {"items": [user("two"), user("three")]})
        two, three = added.json()["data"]
        assert await texts(app, name) == ["one", "two", "three"]
        newest = (await app.client.get(f"{PATH}/{name}/items?limit=1")).json()
        assert (newest["data"], newest["has_more"]) == ([three], True)
        assert (await app.client.get(f"{PATH}/{name}/items/{two['id']}")).json() == two
        deletion = await app.client.delete(f"{PATH}/{name}/items/{two['id']}")
        assert deletion.json()["id"] == name
        assert await texts(app, name) == ["one", "three"]
        for method in ("GET", "DELETE"):
            url = f"{PATH}/{name}/items/{two['id']}"
            assert (await app.client.request(method, url)).status_code == 404


@pytest.mark.parametrize(
    ("items", "status", "param"),
    [
        ("hi", 400, "items"),
        ([user("x")] * 21, 400, "items"),
        ([1] * 1000, 400, "items"),
        ([{"role": "user"}], 400, "items.0.content"),
        ([{"type": "item_reference", "id": "no"}], 404, "items.0.id"),
        (
            [{"type": "function_call_output", "call_id": "no", "output": ""}],
            400,
            "items.0.call_id",
        ),
    ],
)
async def test_bad_items_are_named(open_app: OpenApp, items: Any, status: int, param: str) -> None:
    async with open_app(ANSWER) as app:
        name = await created(app)
        for path in (PATH, f"{PATH}/{name}/items"):
            answer = await app.post(path, {"items": items})
            assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
        assert (await app.post(f"{PATH}/{name}/items", {"items": []})).status_code == 400
        assert await texts(app, name) == []


async def test_unsupported_items_are_refused_if_configured(
    open_app: OpenApp,
) -> None:
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}
    async with open_app(ANSWER, unsupported_input="error") as app:
        name = await created(app)
        for path in (PATH, f"{PATH}/{name}/items"):
            answer = await app.post(path, {"items": [user("hi"), picture]})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "unsupported_input")
            assert error["param"] == "items.1.content.0"
        assert await texts(app, name) == []


async def test_a_conversation_that_is_deleted_while_items_are_read_takes_none(
    open_app: OpenApp,
) -> None:
    class Deleting(MemoryConversations):
        """Deletes a conversation before items are added to it."""

        async def add(self, owner: str, conversation_id: str, *rest: Any) -> bool:
            await self.delete(owner, conversation_id)
            return await super().add(owner, conversation_id, *rest)

    store = MemoryStore()
    store.conversations = Deleting()
    async with open_app(ANSWER, store=store) as app:
        name = await created(app)
        added = await app.post(f"{PATH}/{name}/items", {"items": [user("hi")]})
    assert (added.status_code, added.json()["error"]["param"]) == (404, "conversation_id")


async def test_other_keys_find_nothing(open_app: OpenApp, store: Store) -> None:
    async with open_app(ANSWER, store=store, api_key=("a", "b")) as app:
        mine, other = ({"authorization": f"Bearer {key}"} for key in "ab")
        new = await app.post(PATH, {"items": [user("hi") | {"id": "msg_1"}]}, headers=mine)
        url = f"{PATH}/{new.json()['id']}"
        for method, path in (
            ("GET", url),
            ("POST", url),
            ("DELETE", url),
            ("GET", f"{url}/items"),
            ("POST", f"{url}/items"),
            ("GET", f"{url}/items/msg_1"),
            ("DELETE", f"{url}/items/msg_1"),
        ):
            change: Any = {"metadata": {}, "items": [user("ho")]} if method == "POST" else None
            answer = await app.client.request(method, path, json=change, headers=other)
            assert answer.status_code == 404
            answer = await app.client.request(method, path, json=change)
            assert answer.status_code == 401
        body = {"conversation": new.json()["id"], "input": "hi"}
        assert (await app.post("/v1/responses", body, headers=other)).status_code == 404
        assert (await app.client.get(url, headers=mine)).json() == new.json()
        (item,) = (await app.client.get(f"{url}/items", headers=mine)).json()["data"]
    assert item["id"] == "msg_1"


@pytest.mark.parametrize("as_object", [False, True])
async def test_a_response_reads_its_conversation_and_is_added_to_it(
    open_app: OpenApp, store: Store, as_object: bool
) -> None:
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[user("one")])
        conversation_field = {"id": name} if as_object else name
        first = (await respond(app, conversation_field, input="two")).json()
        assert first["conversation"] == {"id": name}
        await respond(app, conversation_field, input="three", instructions="Be brief.")
        assert await texts(app, name) == ["one", "two", "Hello!", "three", "Hello!"]
        follow_up = await app.post(
            "/v1/responses", {"previous_response_id": first["id"], "input": "four"}
        )
        assert follow_up.status_code == 200
    one, two, three = app.prompts
    assert "one<|end|>" in one
    assert "two<|end|>" in two
    assert "Hello!<|end|>" in two
    assert "Be brief." in two
    assert "one<|end|>" in three
    assert "three" not in three
    assert "Be brief." not in three


async def test_a_conversation_goes_on_after_a_call(open_app: OpenApp, store: Store) -> None:
    lines = ({"prompt_contains": "to=assistant", "completion": ANSWER}, {"completion": CALL})
    async with open_app(*lines, store=store) as app:
        name = await created(app)
        first = (await respond(app, name, input="hi", tools=[TOOL])).json()
        called = result(first["output"][0]["call_id"])
        second = await respond(app, name, input=[called], tools=[TOOL])
        assert second.status_code == 200, second.text
    # The call's own tokens are repeated.
    assert app.prompts[1].startswith(app.prompts[0] + CALL)


async def test_removing_a_call_removes_its_result(open_app: OpenApp, store: Store) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    async with open_app(ANSWER, store=store) as app:
        name = await created(app, items=[user("one"), call, result("c")])
        await app.client.delete(f"{PATH}/{name}/items/fc_1")
        refused = await respond(app, name, input=[result("c")])
        answer = await respond(app, name, input="two")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input.0.call_id")
    assert answer.status_code == 200, answer.text
    assert "to=assistant" not in app.prompts[0]


async def test_a_response_can_be_continued_without_the_conversation_that_has_its_call(
    open_app: OpenApp, store: Store
) -> None:
    lines = ({"prompt_contains": "to=assistant", "completion": ANSWER}, {"completion": CALL})
    async with open_app(*lines, {"completion": ANSWER}, store=store) as app:
        name = await created(app)
        first = (await respond(app, name, input="hi", tools=[TOOL])).json()
        called = result(first["output"][0]["call_id"])
        second = (await respond(app, name, input=[called], tools=[TOOL])).json()
        await app.client.delete(f"{PATH}/{name}")
        more = {"previous_response_id": second["id"], "input": "And?"}
        assert (await app.post("/v1/responses", more)).status_code == 200


async def test_two_that_continue_a_conversation_at_once_are_both_right(
    open_app: OpenApp, store: Store
) -> None:
    slow = {"completion": ANSWER, "delay_ms": 5}
    async with open_app(slow, store=store) as app:
        name = await created(app, items=[user("start")])
        answers = await asyncio.gather(
            *(respond(app, name, input=f"question {n}") for n in range(4))
        )
        assert [answer.status_code for answer in answers] == [200] * 4
        stored_texts = await texts(app, name)
    assert stored_texts[0] == "start"
    assert sorted(stored_texts[1::2]) == [f"question {n}" for n in range(4)]
    assert stored_texts[2::2] == ["Hello!"] * 4


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"conversation": "conv_no"}, 404, "conversation"),
        ({"conversation": {}}, 400, "conversation.id"),
        ({"conversation": 1}, 400, "conversation"),
        ({"conversation": "x", "previous_response_id": "y"}, 400, "previous_response_id"),
        ({"conversation": "x", "store": False}, 400, "store"),
    ],
)
async def test_what_cannot_be_continued_is_named(
    open_app: OpenApp, body: dict[str, Any], status: int, param: str
) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.post("/v1/responses", {"input": "hi"} | body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


async def test_an_empty_conversation_needs_input(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        answer = await respond(app, await created(app))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


async def test_hidden_reasoning_stays_hidden_though_it_was_stored_when_shown(
    open_app: OpenApp, store: Store
) -> None:
    thinks = f"<|channel|>analysis<|message|>Greet.<|end|><|start|>assistant{ANSWER}"
    async with open_app(thinks, store=store) as app:
        name = await created(app)
        reasoning = (await respond(app, name, input="hi")).json()["output"][0]
        shown = (await app.client.get(f"{PATH}/{name}/items")).text
    async with open_app(ANSWER, store=store, raw_reasoning="hide") as app:
        hidden = await app.client.get(f"{PATH}/{name}/items")
        one = await app.client.get(f"{PATH}/{name}/items/{reasoning['id']}")
    ConversationItemList.model_validate(hidden.json())
    assert "Greet." in shown
    assert "Greet." not in hidden.text + one.text
    assert one.json()["id"] == reasoning["id"]
