"""The records of stored responses: those that were made, and those that are rendered later."""

from typing import Any

import pytest
from openai.types.responses import Response

from harmony.tokenizer import decode
from server.generation import turn
from server.generation.plan import TurnPlan
from server.responses import stored_record
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from tests.server.routes.test_stored_responses import ANSWER, SLOW, TOOL, OpenApp, create, get

REASONED_CALL = (
    "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant to=functions.f<|channel|>"
    "commentary <|constrain|>json<|message|>{}<|call|>"
)


@pytest.mark.parametrize("body", [{"input": "hi"}, {"input": "hi", "reasoning": {"effort": "low"}}])
async def test_a_record_is_rendered_of_a_response_that_was_made_without_one(
    open_app: OpenApp, body: Any
) -> None:
    options = {"instructions": "Be kind.", "tools": [TOOL], **body}
    async with open_app(REASONED_CALL) as app:
        first = await create(app, **options)
        second = await create(
            app,
            **{**options, "previous_response_id": first["id"], "return_token_ids": True},
        )
        for response in (first, second):
            answer = await get(app, response["id"], **{"include[]": "gpt_oss:record"})
            record = answer.json()["gpt_oss:record"]
            Response.model_validate(answer.json())
            assert decode(record["token_ids"]) == REASONED_CALL
            assert not record["recorded"]
            (sampling,) = record["samplings"]
            assert (sampling["start"], sampling["end"]) == (0, len(record["token_ids"]))
    assert record["prompt_token_ids"] == second["prompt_token_ids"]
    assert record["token_ids"] == second["token_ids"]


TURNS = [{"role": "user", "content": "word " * 60_000} for _ in range(3)]


@pytest.mark.parametrize("default_max_output_tokens", [None, 20])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reasoning": {"effort": "none"}},
        {"reasoning": {"max_tokens": 0}},
        {"reasoning": {"max_tokens": 50}},
        {"reasoning": {"effort": "high", "max_tokens": 50}},
        {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        {
            "tools": [TOOL, {"type": "file_search", "vector_store_ids": ["v"]}],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}, {"type": "file_search"}],
            },
        },
        {"input": TURNS, "truncation": "auto"},
        {"input": TURNS, "truncation": "auto", "max_output_tokens": 30},
    ],
)
async def test_a_rendered_record_has_the_prompt_and_the_grammar_of_one_that_was_made(
    open_app: OpenApp, options: Any, default_max_output_tokens: int | None
) -> None:
    settings = {"default_max_output_tokens": default_max_output_tokens}
    async with open_app(ANSWER, ANSWER, **settings) as app:
        made = (await create(app, **options, include=["gpt_oss:record"]))["gpt_oss:record"]
        plain = await create(app, **options)
        answer = await get(app, plain["id"], **{"include[]": "gpt_oss:record"})
    rendered = answer.json()["gpt_oss:record"]
    assert rendered["prompt_token_ids"] == made["prompt_token_ids"]
    assert rendered["samplings"][0]["grammar"] == made["samplings"][0]["grammar"]


async def test_the_record_of_an_answer_is_the_one_that_was_made(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        response = await create(app, include=["gpt_oss:record"])
        shown = await get(app, response["id"], include="gpt_oss:record")
    assert shown.json()["gpt_oss:record"] == response["gpt_oss:record"]
    assert response["gpt_oss:record"]["recorded"]


async def test_a_response_that_is_still_made_has_no_record(open_app: OpenApp) -> None:
    async with open_app(SLOW) as app:
        made = await create(app, background=True)
        shown = await get(app, made["id"], **{"include[]": "gpt_oss:record"})
        await app.post(f"/v1/responses/{made['id']}/cancel", {})
    assert shown.json()["status"] in ("queued", "in_progress")
    assert "gpt_oss:record" not in shown.json()


async def test_a_record_needs_a_stored_response(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        answer = await get(app, "resp_none", **{"include[]": "gpt_oss:record"})
    assert answer.status_code == 404


async def test_the_record_of_a_response_that_is_deleted_meanwhile_is_not_found(
    open_app: OpenApp,
) -> None:
    class Deleting(MemoryStore):
        """Deletes a response once it was shown."""

        async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
            response = await super().show(owner, response_id)
            await self.delete(owner, response_id)
            return response

    async with open_app(ANSWER, store=Deleting()) as app:
        response = await create(app)
        answer = await get(app, response["id"], **{"include[]": "gpt_oss:record"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "response_id")


@pytest.mark.parametrize("deletes", ["conversation", "item"])
async def test_no_record_is_rendered_without_items_that_were_deleted(
    open_app: OpenApp, store: Store, deletes: str
) -> None:
    async with open_app(ANSWER, store=store) as app:
        said = {"items": [{"role": "user", "content": "Remember 42."}]}
        path = f"/v1/conversations/{(await app.post('/v1/conversations', said)).json()['id']}"
        (said_item,) = (await app.client.get(f"{path}/items")).json()["data"]
        first = await create(app, conversation=path.rpartition("/")[2])
        second = await create(app, previous_response_id=first["id"])
        rendered = await get(app, second["id"], **{"include[]": "gpt_oss:record"})
        deleted = path if deletes == "conversation" else f"{path}/items/{said_item['id']}"
        assert (await app.client.delete(deleted)).status_code == 200
        refused = [
            await get(app, made["id"], **{"include[]": "gpt_oss:record"})
            for made in (first, second)
        ]
    assert rendered.status_code == 200
    for answer in refused:
        assert answer.status_code == 400
        assert "earlier turns" in answer.json()["error"]["message"]


async def test_no_record_is_rendered_with_another_prompt(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version of the server may render a tool in another way."""

    def longer(plan: TurnPlan) -> list[int]:
        return [*turn.prompt(plan), 0]

    monkeypatch.setattr(stored_record, "prompt", longer)
    async with open_app(ANSWER) as app:
        response = await create(app, tools=[TOOL])
        answer = await get(app, response["id"], **{"include[]": "gpt_oss:record"})
    assert answer.status_code == 400
    assert "a tool or the server has changed" in answer.json()["error"]["message"]
