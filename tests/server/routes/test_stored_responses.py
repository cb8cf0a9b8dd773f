"""`/v1/responses/{id}`: responses that are stored or in progress, on this gateway or another."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from openai.types.responses import Response
from openai.types.responses.response_item_list import ResponseItemList
from starlette.types import Message

from server.store.responses.base import Store
from server.store.responses.sql import SqlStore

ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello there, you!<|return|>"
)
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
SLOW = {"completion": ANSWER, "delay_ms": 60_000}
REASONS = {**SLOW, "tokens_per_chunk": 7}
"""The first chunk ends with the reasoning."""

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def new_store(tmp_path: Path) -> Callable[[], SqlStore]:
    """Stores of several gateways, on one database."""
    return lambda: SqlStore(f"sqlite:///{tmp_path}/store.db")


def sse(text: str) -> list[dict[str, Any]]:
    *blocks, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(block.split("data: ", 1)[1]) for block in blocks]


async def create(app: Any, **body: Any) -> dict[str, Any]:
    answer = await app.post("/v1/responses", {"input": "hi"} | body)
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    Response.model_validate(response)
    return response


async def streamed(app: Any, **body: Any) -> list[dict[str, Any]]:
    return sse((await app.post("/v1/responses", {"input": "hi", "stream": True} | body)).text)


async def get(app: Any, path: str, **query: Any) -> Any:
    return await app.client.get(f"/v1/responses/{path}", params=query)


async def replayed(app: Any, response_id: str, **query: Any) -> list[dict[str, Any]]:
    answer = await get(app, response_id, stream="true", **query)
    assert answer.headers["content-type"].startswith("text/event-stream")
    return sse(answer.text)


async def ended(app: Any, response_id: str) -> dict[str, Any]:
    """The response as its last event shows it."""
    response: dict[str, Any] = (await replayed(app, response_id))[-1]["response"]
    return response


class Follower:
    """A client that reads the events of a response while they come."""

    def __init__(self, app: Any, response_id: str, after: int) -> None:
        self._left = asyncio.Event()
        self._bodies: asyncio.Queue[bytes] = asyncio.Queue()
        self._read = b""
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/v1/responses/{response_id}",
            "query_string": f"stream=true&starting_after={after}".encode(),
            "headers": [],
        }
        self._task = asyncio.ensure_future(app.app(scope, self._receive, self._send))

    async def until(self, end: bytes) -> str:
        """All bytes received, once they contain `end`."""
        while end not in self._read:
            self._read += await self._bodies.get()
        return self._read.decode()

    async def leave(self) -> None:
        self._left.set()
        await self._task

    async def _receive(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._bodies.put_nowait(message.get("body", b""))


async def made_here(app: Any) -> str:
    """The id of a response that this gateway makes, and does not end."""
    response_id: str = (await create(app, background=True))["id"]
    await app.backend.until_running(1)
    return response_id


async def cancel(app: Any, response_id: str) -> None:
    answer = await app.client.post(f"/v1/responses/{response_id}/cancel")
    assert answer.json()["status"] == "cancelled"


async def test_a_finished_stream_is_replayed_from_any_event(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        events = await streamed(app)
        response_id = events[0]["response"]["id"]
        assert await replayed(app, response_id) == events
        for number in (0, 3, len(events) - 2):
            assert await replayed(app, response_id, starting_after=number) == events[number + 1 :]
        assert await replayed(app, response_id, starting_after=len(events) - 1) == []


async def test_an_answer_that_was_not_streamed_is_replayed_too(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        response = await create(app)
        events = await replayed(app, response["id"])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1] == events[-1] | {"type": "response.completed", "response": response}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"stream": "yes"}, "stream"),
        ({"starting_after": "1"}, "starting_after"),
        ({"stream": "true", "starting_after": "-1"}, "starting_after"),
        ({"stream": "true", "starting_after": "x"}, "starting_after"),
        ({"stream": "true", "starting_after": "1" * 5000}, "starting_after"),
    ],
)
async def test_a_bad_query_is_named(open_app: OpenApp, query: dict[str, str], param: str) -> None:
    async with open_app(ANSWER) as app:
        response = await create(app)
        answer = await get(app, response["id"], **query)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("path", ["", "/input_items", "?stream=true"])
async def test_an_unknown_response_is_not_found(open_app: OpenApp, store: Store, path: str) -> None:
    async with open_app(ANSWER, store=store, api_key=("a", "b")) as app:
        mine, other = ({"authorization": f"Bearer {key}"} for key in "ab")
        created = await app.post("/v1/responses", {"input": "hi"}, headers=mine)
        url = f"/v1/responses/{created.json()['id']}"
        assert (await app.client.get(url + path, headers=mine)).status_code == 200
        assert (await app.client.get(url + path, headers=other)).status_code == 404
        assert (await app.client.post(f"{url}/cancel", headers=other)).status_code == 404
        assert (await app.client.delete(url, headers=other)).status_code == 404
        assert (await app.client.delete(url, headers=mine)).json()["deleted"]
        assert (await app.client.get(url + path, headers=mine)).status_code == 404


async def test_a_background_response_is_queued_and_then_made(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        queued = await create(app, background=True)
        assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
        events = await replayed(app, queued["id"])
        shown = (await get(app, queued["id"])).json()
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert events[1]["response"]["status"] == "queued"
    assert events[2]["response"]["status"] == "in_progress"
    assert shown == events[-1]["response"]
    assert shown["status"] == "completed"
    assert shown["output"][1]["content"][0]["text"] == "Hello there, you!"


async def test_a_response_that_is_made_is_listed_with_its_status(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(REASONS, store=store) as app:
        response_id = await made_here(app)
        follower = Follower(app, response_id, 0)
        await follower.until(b"response.in_progress")
        (listed,) = (await app.client.get("/v1/responses")).json()["data"]
        await cancel(app, response_id)
        await follower.leave()
    assert listed["status"] == "in_progress"


async def test_a_background_response_survives_its_connection(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app({"completion": ANSWER, "delay_ms": 1}, store=store) as app:
        queued = await create(app, background=True)
        response = await ended(app, queued["id"])
        follow_up = await create(app, previous_response_id=queued["id"], input="And?")
    assert response["status"] == "completed"
    assert follow_up["status"] == "completed"
    assert "Hello there, you!" in app.prompts[1]


async def test_a_background_response_can_be_streamed(open_app: OpenApp, store: Store) -> None:
    async with open_app(ANSWER, store=store) as app:
        events = await streamed(app, background=True)
        assert await replayed(app, events[0]["response"]["id"]) == events
    assert events[-1]["type"] == "response.completed"


@pytest.mark.parametrize("number", [0, 2, 3])
async def test_a_response_is_followed_from_any_event_while_it_is_made(
    open_app: OpenApp, store: Store, number: int
) -> None:
    async with open_app(REASONS, store=store) as app:
        response_id = await made_here(app)
        follower = Follower(app, response_id, number)
        await follower.until(b"Greet.")
        await cancel(app, response_id)
        events = sse(await follower.until(b"[DONE]\n\n"))
        assert events == await replayed(app, response_id, starting_after=number)
    assert events[0]["sequence_number"] == number + 1


async def test_a_follower_may_disconnect_from_a_background_response(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(REASONS, store=store) as app:
        response_id = await made_here(app)
        follower = Follower(app, response_id, 0)
        await follower.until(b"Greet.")
        await follower.leave()
        assert (await get(app, response_id)).json()["status"] == "in_progress"
        assert app.backend.running == 1


async def test_hidden_reasoning_stays_hidden_while_the_response_is_made(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(REASONS, store=store) as app:
        response_id = await made_here(app)
        assert "Greet." in await Follower(app, response_id, 0).until(b"output_item.done")
        context = app.app.state.context
        hiding = context.settings.model_copy(update={"raw_reasoning": "hide"})
        app.app.state.context = replace(context, settings=hiding)
        hidden = await Follower(app, response_id, 0).until(b"output_item.done")
        await cancel(app, response_id)
    assert "reasoning_text.done" in hidden
    assert "Greet." not in hidden


async def test_a_background_response_that_is_not_stored_is_refused(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.post(
            "/v1/responses", {"input": "hi", "background": True, "store": False}
        )
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "store")
    assert error["message"] == "'store' must not be false where 'background' is true."


async def test_a_background_response_is_cancelled(open_app: OpenApp, store: Store) -> None:
    async with open_app(SLOW, store=store) as app:
        queued = await create(app, background=True)
        await app.backend.until_running(1)
        cancelled = (await app.client.post(f"/v1/responses/{queued['id']}/cancel")).json()
        assert cancelled["status"] == "cancelled"
        again = await app.client.post(f"/v1/responses/{queued['id']}/cancel")
        assert again.json() == cancelled == (await get(app, queued["id"])).json()
        await app.backend.until_running(0)
        await app.until_idle()


async def test_a_background_response_that_waits_for_a_slot_is_cancelled(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(SLOW, store=store, max_running=1) as app:
        first = await made_here(app)
        waiting = (await create(app, background=True))["id"]
        assert (await get(app, waiting)).json()["status"] == "queued"
        await cancel(app, waiting)
        events = await replayed(app, waiting)
        statuses = [event["response"]["status"] for event in events]
        assert statuses == ["queued", "queued", "cancelled"]
        await cancel(app, first)
        await app.until_idle()
    assert len(app.prompts) == 1


async def test_only_background_responses_can_be_cancelled(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        response = await create(app)
        answer = await app.client.post(f"/v1/responses/{response['id']}/cancel")
    assert answer.status_code == 400


async def test_a_response_that_is_deleted_while_it_is_made_is_cancelled(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(SLOW, store=store) as app:
        queued = await create(app, background=True)
        await app.backend.until_running(1)
        assert (await app.client.delete(f"/v1/responses/{queued['id']}")).status_code == 200
        await app.backend.until_running(0)
        await app.until_idle()
        assert (await get(app, queued["id"])).status_code == 404


async def test_a_deletion_is_one_transaction(
    open_app: OpenApp, new_store: Callable[[], SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    await store.start()
    async with open_app(ANSWER, store=store) as app:
        response = await create(app)
        writing = Mock(wraps=store.database.writing)
        monkeypatch.setattr(store.database, "writing", writing)
        assert (await app.client.delete(f"/v1/responses/{response['id']}")).status_code == 200
    assert writing.call_count == 1
    await store.stop()


async def test_input_items_are_those_that_the_response_was_made_from(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(CALL, {"completion": ANSWER}, store=store) as app:
        first = await create(app, tools=[TOOL])
        (call,) = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "1"}
        second = await create(app, previous_response_id=first["id"], input=[result], tools=[TOOL])
        page = (await get(app, f"{second['id']}/input_items", order="asc")).json()
        newest = (await get(app, f"{second['id']}/input_items", limit="1")).json()
        rest = (
            await get(app, f"{second['id']}/input_items", after=newest["last_id"], limit="2")
        ).json()
        beyond = (await get(app, f"{second['id']}/input_items", after="nothing")).json()
    ResponseItemList.model_validate(page)
    kinds = ["message", "function_call", "function_call_output"]
    assert [item["type"] for item in page["data"]] == kinds
    assert page["data"][1] == call
    assert (page["has_more"], page["first_id"]) == (False, page["data"][0]["id"])
    assert page["data"][0]["content"] == [{"type": "input_text", "text": "hi"}]
    assert page["data"][2]["status"] == "completed"
    assert newest["data"] == [page["data"][2]]
    assert newest["has_more"]
    assert rest["data"] == [page["data"][1], page["data"][0]]
    assert not rest["has_more"]
    assert (beyond["data"], beyond["first_id"], beyond["has_more"]) == ([], None, False)


async def test_another_gateway_shows_follows_and_cancels(
    open_app: OpenApp, new_store: Callable[[], SqlStore]
) -> None:
    stores = [new_store(), new_store()]
    async with AsyncExitStack() as stack:
        for store in stores:
            await store.start()
            stack.push_async_callback(store.stop)
        here = await stack.enter_async_context(open_app(SLOW, store=stores[0]))
        there = await stack.enter_async_context(open_app(ANSWER, store=stores[1]))
        await stack.enter_async_context(here.app.router.lifespan_context(here.app))
        queued = await create(here, background=True)
        await here.backend.until_running(1)
        follower = asyncio.create_task(replayed(there, queued["id"]))
        assert (await get(there, queued["id"])).json()["status"] in ("queued", "in_progress")
        cancelled = await there.client.post(f"/v1/responses/{queued['id']}/cancel")
        events = await follower
        assert cancelled.json() == events[-1]["response"]
        assert cancelled.json()["status"] == "cancelled"
        await here.backend.until_running(0)


async def test_a_response_of_a_stopped_gateway_fails(
    open_app: OpenApp, new_store: Callable[[], SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No gateway has been heard of for long enough: as when it was killed.
    for name in ("SILENT_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(f"server.persistence.maintenance.{name}", 0.05)
    dead, alive = new_store(), new_store()
    await dead.start()
    await alive.start()
    async with open_app(SLOW, store=dead) as killed, open_app(ANSWER, store=alive) as app:
        queued = await create(killed, background=True)
        await killed.backend.until_running(1)
        async with app.app.router.lifespan_context(app.app):
            events = await replayed(app, queued["id"])
            nothing = await replayed(app, queued["id"], starting_after=57)
            shown = (await get(app, queued["id"])).json()
    Response.model_validate(shown)
    assert nothing == [
        {**event, "sequence_number": number} for number, event in enumerate(events[-2:], 58)
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events][-2:] == ["error", "response.failed"]
    assert shown == events[-1]["response"]
    assert shown["status"] == "failed"
    assert "stopped before" in shown["error"]["message"]
    await dead.stop()
    await alive.stop()


async def test_input_items_are_listed_in_their_full_form(open_app: OpenApp) -> None:
    texts = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "And?"},
    ]
    parts: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I see."}]},
    ]
    async with open_app(ANSWER) as app:
        response = await create(app, input=texts)
        page = (await get(app, f"{response['id']}/input_items", order="asc")).json()
        other = await create(app, input=parts)
        page_of_parts = (await get(app, f"{other['id']}/input_items", order="asc")).json()
    ResponseItemList.model_validate(page)
    ResponseItemList.model_validate(page_of_parts)
    assert page_of_parts["data"][0]["content"][0]["detail"] == "auto"
    assert page_of_parts["data"][1]["content"][0]["annotations"] == []
    assert [item["content"][0]["text"] for item in page["data"]] == [
        item["content"] for item in texts
    ]


async def test_hidden_reasoning_stays_hidden_though_it_was_stored_when_shown(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        before = await create(app, return_token_ids=True, include=["gpt_oss:record"])
        after = await create(app, previous_response_id=before["id"])
        shown = (await get(app, before["id"])).text
    async with open_app(ANSWER, store=store, raw_reasoning="hide") as app:
        hidden = await get(app, before["id"])
        refused = await get(app, before["id"], **{"include[]": "gpt_oss:record"})
        items = await get(app, f"{after['id']}/input_items")
        events = await replayed(app, before["id"])
    Response.model_validate(hidden.json())
    ResponseItemList.model_validate(items.json())
    assert "Greet." in shown
    assert "gpt_oss:record" in shown
    assert "gpt_oss:record" not in hidden.text + json.dumps(events)
    assert refused.json()["error"]["code"] == "raw_reasoning_hidden"
    assert "token_ids" in shown
    assert "Greet." not in hidden.text + items.text + json.dumps(events)
    assert "token_ids" not in hidden.text + json.dumps(events)
    assert "Hello there, you!" in hidden.text
    assert "Hello there, you!" in items.text
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == hidden.json()


async def test_a_response_that_is_still_made_cannot_be_continued(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(SLOW, store=store) as app:
        queued = await create(app, background=True)
        body = {"input": "go on", "previous_response_id": queued["id"]}
        refused = await app.post("/v1/responses", body)
        await app.client.post(f"/v1/responses/{queued['id']}/cancel")
        continued = await app.post("/v1/responses", body | {"background": True})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "previous_response_id"
    assert refused.json()["error"]["code"] == "previous_response_not_finished"
    assert continued.status_code == 200


async def test_a_background_response_that_the_server_stops_for_ends_as_failed(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(SLOW, store=store) as app:
        queued = await create(app, background=True)
        await app.backend.until_running(1)
        await app.app.state.context.gateway.runs.close()
        shown = (await get(app, queued["id"])).json()
    assert shown["status"] == "failed"
    assert "server stopped" in shown["error"]["message"]
