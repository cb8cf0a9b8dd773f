"""`GET /v1/conversations` and `GET /v1/responses`, which list what a key stores."""

from typing import Any

import pytest

ANSWER = "<|channel|>final<|message|>Yes.<|return|>"
KEYS = {"api_key": ("one", "two")}
ONE, TWO = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))


async def test_conversations_are_listed_with_a_preview(open_app: Any) -> None:
    items = [{"role": "user", "content": "What is\na tide?"}]
    async with open_app(ANSWER) as app:
        conversation = (await app.post("/v1/conversations", {"items": items})).json()
        page = (await app.client.get("/v1/conversations")).json()
    assert page["data"] == [{**conversation, "gpt_oss:preview": "What is a tide?"}]
    assert (page["object"], page["has_more"]) == ("list", False)


async def test_the_last_response_of_each_chain_is_listed(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        first = (await app.post("/v1/responses", {"input": "One?"})).json()
        body = {"input": "Two?", "previous_response_id": first["id"]}
        second = (await app.post("/v1/responses", body)).json()
        await app.post("/v1/responses", {"input": "Three?", "store": False})
        (listed,) = (await app.client.get("/v1/responses")).json()["data"]
    assert listed == {
        "id": second["id"],
        "object": "response",
        "created_at": second["created_at"],
        "status": "completed",
        "background": False,
        "model": second["model"],
        "previous_response_id": first["id"],
        "metadata": {},
        "gpt_oss:preview": "Two?",
    }


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/responses"])
async def test_a_key_sees_its_own_only(open_app: Any, path: str) -> None:
    async with open_app(ANSWER, **KEYS) as app:
        await app.client.post("/v1/conversations", json={}, headers=ONE)
        await app.client.post("/v1/responses", json={"input": "a"}, headers=ONE)
        mine = (await app.client.get(path, headers=ONE)).json()["data"]
        theirs = (await app.client.get(path, headers=TWO)).json()["data"]
        assert (await app.client.get(path)).status_code == 401
    assert (len(mine), theirs) == (1, [])


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/responses"])
@pytest.mark.parametrize("query", ["limit=0", "limit=101", "order=up"])
async def test_bad_queries_are_refused(open_app: Any, path: str, query: str) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.client.get(f"{path}?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == query.partition("=")[0]
