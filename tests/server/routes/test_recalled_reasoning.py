"""Reasoning that a client omits before a call is restored from the store, by the call's id."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from server.store.responses.base import Store

REASONING = "<|channel|>analysis<|message|>Ask f.<|end|>"
CALL = (
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
ANSWER = "<|channel|>final<|message|>Done.<|return|>"
RESULT = (
    "<|start|>functions.f to=assistant<|channel|>commentary<|message|>1<|end|><|start|>assistant"
)
LINES = (
    {"prompt_contains": "to=assistant", "completion": ANSWER},
    {"prompt_contains": None, "completion": REASONING + CALL},
)
PREAMBLE = "<|start|>assistant<|channel|>commentary <|constrain|>text<|message|>Let me see.<|end|>"
AGAIN = "<|start|>assistant<|channel|>analysis<|message|>Now ask.<|end|>"
SPOKEN = REASONING + PREAMBLE + AGAIN + CALL
PREAMBLED = (LINES[0], {"prompt_contains": None, "completion": SPOKEN})
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
ASKED = {"role": "user", "content": "hi"}

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


async def respond(app: Any, input_items: Any, **options: Any) -> dict[str, Any]:
    answer = await app.post("/v1/responses", {"input": input_items, "tools": [TOOL]}, **options)
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


def bare(call: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A call as sent by a client that drops ids and status."""
    call_fields = {name: call[name] for name in ("type", "call_id", "name", "arguments")}
    return {**call_fields, **changes}


def result(call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "1"}


def without_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in item.items() if name not in ("id", "status", "phase")}
        for item in items
    ]


async def test_the_prompt_repeats_what_was_sampled(open_app: OpenApp, store: Store) -> None:
    async with open_app(*LINES, store=store) as app:
        _, call = (await respond(app, [ASKED]))["output"]
        await respond(app, [ASKED, bare(call), result(call)])
    assert app.prompts[1] == app.prompts[0] + REASONING + CALL + RESULT


async def test_a_call_may_come_back_as_a_reference(open_app: OpenApp, store: Store) -> None:
    async with open_app(*LINES, store=store) as app:
        _, call = (await respond(app, [ASKED]))["output"]
        await respond(app, [ASKED, {"type": "item_reference", "id": call["id"]}, result(call)])
    assert app.prompts[1] == app.prompts[0] + REASONING + CALL + RESULT


async def test_returned_reasoning_is_not_repeated(open_app: OpenApp, store: Store) -> None:
    async with open_app(*LINES, store=store) as app:
        reasoning_item, call = (await respond(app, [ASKED]))["output"]
        own = {"type": "reasoning", "summary": [], "content": reasoning_item["content"]}
        for reasoning in (reasoning_item, own):
            await respond(app, [ASKED, reasoning, bare(call), result(call)])
    for prompt in app.prompts[1:]:
        assert prompt.count("Ask f.") == 1


@pytest.mark.parametrize("changed", ['{"a": 2}', '{"a": 1.0}'])
async def test_a_changed_call_is_the_clients_own(
    open_app: OpenApp, store: Store, changed: str
) -> None:
    async with open_app(*LINES, store=store) as app:
        _, call = (await respond(app, [ASKED]))["output"]
        await respond(app, [ASKED, bare(call, arguments=changed), result(call)])
    assert "Ask f." not in app.prompts[1]
    assert changed in app.prompts[1]


async def test_reformatted_arguments_are_the_same_call(open_app: OpenApp, store: Store) -> None:
    async with open_app(*LINES, store=store) as app:
        _, call = (await respond(app, [ASKED]))["output"]
        for back in (bare(call), {name: value for name, value in call.items() if name != "status"}):
            anew = back | {"arguments": '{"a":1}'}
            await respond(app, [ASKED, anew, result(call)])
    assert app.prompts[1:] == [app.prompts[0] + REASONING + CALL + RESULT] * 2


async def test_other_keys_calls_are_not_known(open_app: OpenApp, store: Store) -> None:
    async with open_app(*LINES, store=store, api_key=("a", "b")) as app:
        mine, other = ({"headers": {"authorization": f"Bearer {key}"}} for key in "ab")
        _, call = (await respond(app, [ASKED], **mine))["output"]
        await respond(app, [ASKED, bare(call), result(call)], **other)
        await respond(app, [ASKED, bare(call), result(call)], **mine)
    assert "Ask f." not in app.prompts[1]
    assert "Ask f." in app.prompts[2]


async def test_each_call_gets_the_reasoning_before_it(open_app: OpenApp, store: Store) -> None:
    second = REASONING.replace("Ask f.", "Ask again.") + CALL.replace("1", "2")
    lines = (
        {"prompt_contains": '{"a": 2}', "completion": ANSWER},
        {"prompt_contains": "to=assistant", "completion": second},
        {"prompt_contains": None, "completion": REASONING + CALL},
    )
    async with open_app(*lines, store=store) as app:
        _, one = (await respond(app, [ASKED]))["output"]
        so_far = [ASKED, bare(one), result(one)]
        _, two = (await respond(app, so_far))["output"]
        await respond(app, [*so_far, bare(two), result(two)])
    assert app.prompts[2] == app.prompts[1] + second + RESULT


async def test_deleted_responses_are_not_replayed(open_app: OpenApp, store: Store) -> None:
    async with open_app(*LINES, store=store) as app:
        first = await respond(app, [ASKED])
        call = first["output"][1]
        await app.client.delete(f"/v1/responses/{first['id']}")
        await respond(app, [ASKED, bare(call), result(call)])
    assert "Ask f." not in app.prompts[1]


@pytest.mark.parametrize(
    "indices",
    [
        pytest.param((0, 1, 2, 3), id="all"),
        pytest.param((1, 3), id="no reasoning"),
    ],
)
async def test_a_returned_turn_repeats_the_sampled_tokens(
    open_app: OpenApp, store: Store, indices: tuple[int, ...]
) -> None:
    async with open_app(*PREAMBLED, store=store) as app:
        output_items = (await respond(app, [ASKED]))["output"]
        back = without_ids([output_items[index] for index in indices])
        await respond(app, [ASKED, *back, result(output_items[-1])])
    assert app.prompts[1] == app.prompts[0] + SPOKEN + RESULT


async def test_reasoning_without_its_text_is_put_back(open_app: OpenApp, store: Store) -> None:
    async with open_app(*PREAMBLED, store=store) as app:
        output_items = (await respond(app, [ASKED]))["output"]
        empty = {"type": "reasoning", "summary": []}
        back = [empty, *without_ids([output_items[1], output_items[3]])]
        await respond(app, [ASKED, *back, result(output_items[-1])])
    assert app.prompts[1] == app.prompts[0] + SPOKEN + RESULT


async def test_a_changed_preamble_stays_with_the_reasoning_around_it(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(*PREAMBLED, store=store) as app:
        output_items = (await respond(app, [ASKED]))["output"]
        changed = {"role": "assistant", "content": "Hm."}
        await respond(app, [ASKED, changed, bare(output_items[3]), result(output_items[3])])
        await respond(app, [ASKED, bare(output_items[3]), result(output_items[3])])
    preamble = "<|start|>assistant<|channel|>commentary<|message|>Hm.<|end|>"
    assert app.prompts[1] == app.prompts[0] + REASONING + preamble + AGAIN + CALL + RESULT
    assert app.prompts[2] == app.prompts[0] + REASONING + AGAIN + CALL + RESULT


async def test_reasoning_of_the_clients_own_stands_alone(open_app: OpenApp, store: Store) -> None:
    async with open_app(*PREAMBLED, store=store) as app:
        output_items = (await respond(app, [ASKED]))["output"]
        content = [{"type": "reasoning_text", "text": "Mine."}]
        own = {"type": "reasoning", "summary": [], "content": content}
        await respond(
            app,
            [ASKED, own, *without_ids([output_items[1], output_items[3]]), result(output_items[3])],
        )
    mine = "<|channel|>analysis<|message|>Mine.<|end|>"
    assert app.prompts[1] == app.prompts[0] + mine + PREAMBLE + CALL + RESULT


async def test_a_call_that_is_sent_to_its_conversation_again_repeats_no_reasoning(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(*LINES, store=store) as app:
        conversation = (await app.post("/v1/conversations", {})).json()["id"]
        asked = {"input": [ASKED], "tools": [TOOL], "conversation": conversation}
        _, call = (await app.post("/v1/responses", asked)).json()["output"]
        answered = {**asked, "input": [bare(call), result(call)]}
        assert (await app.post("/v1/responses", answered)).status_code == 200
        listed = await app.client.get(f"/v1/conversations/{conversation}/items?limit=100")
        ids = [item["id"] for item in listed.json()["data"]]
        assert app.prompts[-1].count("Ask f.") == 1
        assert len(set(ids)) == len(ids)


async def test_a_turn_that_is_sent_again_with_its_result_is_there_once(
    open_app: OpenApp, store: Store
) -> None:
    async with open_app(*PREAMBLED, store=store) as app:
        first = await respond(app, [ASKED])
        _, preamble, _, call = first["output"]
        again = without_ids([preamble, call])
        answer = {"input": [*again, result(call)], "previous_response_id": first["id"]}
        answered = await app.post("/v1/responses", {**answer, "tools": [TOOL]})
        assert app.prompts[1] == app.prompts[0] + SPOKEN + RESULT
        items = await app.client.get(f"/v1/responses/{answered.json()['id']}/input_items")
        newest_first = without_ids(items.json()["data"])
        assert newest_first[:-1] == [result(call), *without_ids(first["output"][::-1])]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"type": "function_call_output", "call_id": "x", "output": "1"}, "call_id"),
        ({"role": "user", "content": 5}, "content"),
        (
            {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True},
            "approval_request_id",
        ),
    ],
)
async def test_an_error_after_restored_reasoning_names_the_field_as_it_was_sent(
    wrong: dict[str, Any], field: str, open_app: OpenApp, store: Store
) -> None:
    async with open_app(*LINES, store=store) as app:
        _, call = (await respond(app, [ASKED]))["output"]
        sent = [ASKED, bare(call), result(call), wrong]
        refused = await app.post("/v1/responses", {"input": sent, "tools": [TOOL]})
    assert refused.json()["error"]["param"] == f"input.3.{field}"
