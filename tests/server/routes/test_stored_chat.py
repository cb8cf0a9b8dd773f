"""Stored chat completions through the whole application, checked with the SDK's own types."""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionDeleted

from server.routes import stored_chat
from server.store.errors import StoreUnavailable
from server.store.responses.memory import MemoryStore
from tests.server.tools.hosted import PYTHON, Tool

PATH = "/v1/chat/completions"
ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
CALL = (
    "<|channel|>analysis<|message|>Ask f.<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SEAL = {"type": "reasoning.encrypted", "data": "x"}


def request(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    return {"model": "scripted", "messages": messages, "store": True} | fields


def read(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def create(app: Any, **fields: Any) -> dict[str, Any]:
    return read(await app.post(PATH, request(**fields)))


@pytest.mark.parametrize("fields", [{}, {"n": 2}])
async def test_a_stored_completion_is_the_one_that_was_answered(
    open_app: Any, fields: dict[str, Any]
) -> None:
    async with open_app(ANSWER) as app:
        created = await create(app, metadata={"a": "b"}, temperature=0.5, user="u", **fields)
        stored = read(await app.client.get(f"{PATH}/{created['id']}"))
    ChatCompletion.model_validate(stored, strict=True)
    assert stored == created | {"metadata": {"a": "b"}, "temperature": 0.5, "input_user": "u"}


async def test_entries_of_tools_that_are_not_served_are_not_stored(open_app: Any) -> None:
    secret = {"type": "image_generation", "authorization": "secret"}
    async with open_app(ANSWER) as app:
        created = await create(app, tools=[secret, TOOL])
        stored = read(await app.client.get(f"{PATH}/{created['id']}"))
    assert stored["tools"] == [TOOL]


async def test_hosted_tools_are_stored_as_their_sessions_show_them(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        app.use(Tool(replace(PYTHON, echo={"type": "code_interpreter"})))
        created = await create(app, tools=[{"type": "code_interpreter", "container": "secret"}])
        stored = read(await app.client.get(f"{PATH}/{created['id']}"))
    assert stored["tools"] == [{"type": "code_interpreter"}]


async def test_a_stream_is_stored_before_it_ends(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.post(PATH, request(stream=True))
        (stored,) = read(await app.client.get(PATH))["data"]
    assert stored["id"] in answer.text
    assert stored["choices"][0]["message"]["content"] == "Hello!"
    assert stored["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("store", [None, False])
async def test_nothing_is_stored_by_default(open_app: Any, store: bool | None) -> None:
    async with open_app(ANSWER) as app:
        created = await create(app, store=store)
        assert (await app.client.get(f"{PATH}/{created['id']}")).status_code == 404
        assert read(await app.client.get(PATH))["data"] == []


async def test_a_failed_completion_is_not_stored(open_app: Any) -> None:
    async with open_app({"completion": ANSWER, "prompt_contains": "other"}) as app:
        assert (await app.post(PATH, request())).status_code == 500
        assert read(await app.client.get(PATH))["data"] == []


async def test_completions_are_listed_in_pages(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        ids = [(await create(app))["id"] for _ in range(3)]
        first = read(await app.client.get(PATH, params={"limit": 2}))
        rest = read(await app.client.get(PATH, params={"limit": 2, "after": first["last_id"]}))
        newest = read(await app.client.get(PATH, params={"limit": 1, "order": "desc"}))
        lost = read(await app.client.get(PATH, params={"after": "chatcmpl_lost"}))
    assert [each["id"] for each in first["data"]] == ids[:2]
    assert (first["first_id"], first["last_id"], first["has_more"]) == (ids[0], ids[1], True)
    assert [each["id"] for each in rest["data"]] == ids[2:]
    assert not rest["has_more"]
    assert [each["id"] for each in newest["data"]] == [ids[2]]
    assert (lost["data"], lost["first_id"], lost["has_more"]) == ([], None, False)


async def test_a_list_is_filtered_by_model_and_metadata(open_app: Any) -> None:
    async with open_app(ANSWER, served_model_name=("a", "b")) as app:
        one = await create(app, model="a", metadata={"k": "1", "l": "2"})
        await create(app, model="b", metadata={"k": "1"})
        await create(app, model="a", metadata={"k": "2"})
        query = {"model": "a", "metadata[k]": "1"}
        (found,) = read(await app.client.get(PATH, params=query))["data"]
        both = read(await app.client.get(PATH, params={"metadata[k]": "1"}))["data"]
    assert found["id"] == one["id"]
    assert len(both) == 2


async def test_metadata_is_replaced(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        created = await create(app, metadata={"a": "b"})
        path = f"{PATH}/{created['id']}"
        changed = read(await app.post(path, {"metadata": {"c": "d"}}))
        assert read(await app.client.get(path)) == changed
        emptied = read(await app.post(path, {"metadata": None}))
    assert changed == created | {"metadata": {"c": "d"}}
    assert emptied["metadata"] == {}


async def test_a_deleted_completion_is_gone(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        path = f"{PATH}/{(await create(app))['id']}"
        deleted = read(await app.client.delete(path))
        ChatCompletionDeleted.model_validate(deleted, strict=True)
        answers = [await app.client.get(path), await app.client.delete(path)]
        answers += [
            await app.post(path, {"metadata": {}}),
            await app.client.get(f"{path}/messages"),
        ]
    assert [answer.status_code for answer in answers] == [404] * 4


async def test_the_messages_of_the_request_are_listed_in_pages(open_app: Any) -> None:
    parts = [{"type": "text", "text": "hi"}]
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": parts}]
    async with open_app(ANSWER) as app:
        path = f"{PATH}/{(await create(app, messages=messages))['id']}/messages"
        everything = read(await app.client.get(path))
        first = read(await app.client.get(path, params={"limit": 1}))
        rest = read(await app.client.get(path, params={"after": first["last_id"]}))
        reverse = read(await app.client.get(path, params={"order": "desc"}))
        lost = read(await app.client.get(path, params={"after": "lost"}))
    one, two = everything["data"]
    assert (one["role"], one["content"], one["content_parts"]) == ("system", "a", None)
    assert (two["role"], two["content"], two["content_parts"]) == ("user", None, parts)
    assert (first["data"], first["has_more"]) == ([one], True)
    assert (rest["data"], rest["has_more"]) == ([two], False)
    assert reverse["data"] == [two, one]
    assert lost["data"] == []


@pytest.mark.parametrize(
    ("query", "param"),
    [({"limit": "0"}, "limit"), ({"limit": "x"}, "limit"), ({"order": "up"}, "order")],
)
async def test_a_bad_query_is_named(open_app: Any, query: dict[str, str], param: str) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.client.get(PATH, params=query)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_what_is_stored_is_its_owners_alone(open_app: Any) -> None:
    a, b = ({"authorization": f"Bearer {key}"} for key in "ab")
    async with open_app(ANSWER, api_key=("a", "b")) as app:
        created = read(await app.post(PATH, request(), headers=a))
        path = f"{PATH}/{created['id']}"
        for answer in (
            await app.client.get(path, headers=b),
            await app.client.delete(path, headers=b),
            await app.post(path, {"metadata": {}}, headers=b),
            await app.client.get(f"{path}/messages", headers=b),
        ):
            assert answer.status_code == 404
        assert read(await app.client.get(PATH, headers=b))["data"] == []
        assert (await app.client.get(path)).status_code == 401
        assert read(await app.client.get(path, headers=a))["id"] == created["id"]


async def test_an_answer_that_cannot_be_stored_is_an_error(open_app: Any) -> None:
    async def away(*_: Any) -> Any:
        raise StoreUnavailable("The store is away.")

    async with open_app(ANSWER, store_patience=0) as app:
        app.app.state.context.store.chat_completions.put = away
        whole = await app.post(PATH, request())
        streamed = await app.post(PATH, request(stream=True))
        await app.until_idle()
    assert whole.status_code == 503
    assert whole.json()["error"]["code"] == "store_unavailable"
    assert '"finish_reason":"stop"' not in streamed.text
    assert '"code":"store_unavailable"' in streamed.text


async def test_a_stream_of_several_choices_that_cannot_be_stored_ends_with_the_error(
    open_app: Any,
) -> None:
    async def away(*_: Any) -> Any:
        raise StoreUnavailable("The store is away.")

    async with open_app(ANSWER, store_patience=0) as app:
        app.app.state.context.store.chat_completions.put = away
        streamed = await app.post(PATH, request(n=2, stream=True))
        await app.until_idle()
    *_, last, done, _ = streamed.text.split("\n\n")
    assert '"code":"store_unavailable"' in last
    assert done == "data: [DONE]"


async def test_a_stored_call_replays_its_reasoning(open_app: Any) -> None:
    async with open_app(CALL, raw_reasoning="hide") as app:
        created = await create(app, tools=[TOOL])
        message = created["choices"][0]["message"]
        result = {
            "role": "tool",
            "tool_call_id": message["tool_calls"][0]["id"],
            "content": "1",
        }
        stored = (await app.client.get(f"{PATH}/{created['id']}")).text
        follow_up = [*request()["messages"], message, result]
        await create(app, tools=[TOOL], messages=follow_up)
        await app.client.delete(f"{PATH}/{created['id']}")
        await create(app, tools=[TOOL], messages=follow_up)
    _, with_reasoning, forgotten = app.prompts
    assert "Ask f." not in stored
    assert f"<|start|>assistant{CALL}" in with_reasoning
    assert "Ask f." not in forgotten


async def test_hidden_reasoning_stays_hidden_though_it_was_stored_when_shown(open_app: Any) -> None:
    store = MemoryStore()
    async with open_app(CALL, ANSWER, store=store, reasoning_content=True) as app:
        created = await create(app, tools=[TOOL], return_token_ids=True)
        message = created["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "1"}
        later = await create(app, tools=[TOOL], messages=[*request()["messages"], message, result])
        shown = (await app.client.get(f"{PATH}/{created['id']}")).text
    async with open_app(ANSWER, store=store, raw_reasoning="hide") as app:
        one = await app.client.get(f"{PATH}/{created['id']}")
        listed = await app.client.get(PATH)
        changed = await app.post(f"{PATH}/{created['id']}", {"metadata": {"a": "b"}})
        messages = await app.client.get(f"{PATH}/{later['id']}/messages")
    ChatCompletion.model_validate(one.json(), strict=True)
    assert "Ask f." in shown
    assert "token_ids" in shown
    for answer in (one, listed, changed, messages):
        assert answer.status_code == 200
        assert "Ask f." not in answer.text
        assert "token_ids" not in answer.text
    assert one.json()["choices"][0]["message"]["tool_calls"] == message["tool_calls"]


@pytest.mark.parametrize(
    ("details", "shown"),
    [
        (["x", SEAL, {"type": "reasoning.text", "text": "Ask f."}, {"type": ["x"]}], [SEAL]),
        ("x", None),
        ({"type": "reasoning.encrypted"}, None),
        (5, None),
    ],
)
async def test_redaction_accepts_unknown_reasoning_details(
    open_app: Any, details: Any, shown: Any
) -> None:
    user_message = {"role": "user", "content": "hi", "reasoning_details": details}
    async with open_app(ANSWER, raw_reasoning="hide") as app:
        created = await create(app, messages=[user_message])
        (message,) = read(await app.client.get(f"{PATH}/{created['id']}/messages"))["data"]
    assert message["content"] == "hi"
    assert message.get("reasoning_details") == shown


async def test_no_more_messages_are_redacted_than_are_shown(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    redacted: list[str] = []

    def noted(message: dict[str, Any]) -> dict[str, Any]:
        redacted.append(message["role"])
        return message

    monkeypatch.setattr(stored_chat, "redacted_message", noted)
    async with open_app(ANSWER, raw_reasoning="hide") as app:
        path = f"{PATH}/{(await create(app))['id']}/messages"
        read(await app.client.get(path, params={"limit": 1}))
    assert redacted == ["system"]
