"""A model that reasons in a loop, on a real engine: the server closes its reasoning."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from benchmarks.constrained import Recording, serving, write_model
from benchmarks.drawn_requests import MODEL
from harmony.tokenizer import encode
from harmony.vocab import END, RETURN, START
from server.generation.repetition import WINDOW

pytestmark = pytest.mark.asyncio(loop_scope="module")

(ANALYSIS,), (FINAL,) = encode("analysis"), encode("final")
PREFERRED = {ANALYSIS: 30.0, FINAL: 28.0, RETURN: 20.0}
"""Greedy sampling repeats one word; if that is penalised, the others follow, then the end."""
CAUGHT_WITHIN = 640

Server = tuple[httpx.AsyncClient, Recording]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("looping")
    write_model(folder, PREFERRED)
    async with serving(folder) as served:
        yield served


async def respond(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "input": "Hello", "temperature": 0, "max_output_tokens": 2_000}
    answer = await client.post("/v1/responses", json=body | {"frequency_penalty": 2} | fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_looping_reasoning_ends_and_the_answer_follows(server: Server) -> None:
    """With and without a budget, and beside a request that does not reason."""
    client, engine = server
    alone = await respond(client, reasoning={"effort": "none"})
    *looping, limited, beside = await asyncio.gather(
        respond(client, return_token_ids=True),
        respond(client, return_token_ids=True, reasoning={"max_tokens": 1_500}, seed=2**63 - 1),
        respond(client, max_output_tokens=600, frequency_penalty=0),
        respond(client, reasoning={"effort": "none"}),
    )
    for response in looping:
        check(response, engine)
    assert limited["incomplete_details"] == {"reason": "max_output_tokens"}
    assert limited["usage"]["output_tokens"] == 600
    assert [item["content"] for item in beside["output"]] == [
        item["content"] for item in alone["output"]
    ]


def check(response: dict[str, Any], engine: Recording) -> None:
    assert response["status"] == "completed"
    reasoning, message = response["output"]
    reasoning_tokens = response["usage"]["output_tokens_details"]["reasoning_tokens"]
    assert WINDOW <= reasoning_tokens <= CAUGHT_WITHIN
    assert reasoning["content"][0]["text"] == "analysis" * reasoning_tokens
    # Penalties hold for the answer alone, and count it alone: it ended.
    assert message["content"][0]["text"].startswith("analysis")
    sampled = [engine.sampled[key] for key in engine.prompts if key.startswith(response["id"])]
    assert len(sampled) == 2
    assert sum(map(len, sampled)) == response["usage"]["output_tokens"]
    closing = [END, START, *encode("assistant")]
    assert response["token_ids"] == [*sampled[0], *closing, *sampled[1]]
