"""A web search that the request forces: the grammar has a random model call the browser, and its
weights prefer `search` among the three functions.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from benchmarks.constrained import PREFERRED, serving, write_model
from benchmarks.drawn_requests import MODEL
from harmony.tokenizer import encode

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEARCH_LOGIT = 12.0
WORD = "browser"
WORD_LOGIT = 21.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AsyncOpenAI]:
    folder = tmp_path_factory.mktemp("model")
    # Where the grammar lets the model choose, it calls `search` and looks for the word.
    (search,), (word,) = encode(".search"), encode(WORD)
    write_model(folder, PREFERRED | {search: SEARCH_LOGIT, word: WORD_LOGIT})
    async with (
        serving(folder) as (http, _),
        AsyncOpenAI(
            base_url=str(http.base_url.join("/v1")), api_key="any", max_retries=0
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("seed", range(3))
async def test_a_forced_call_is_a_search(client: AsyncOpenAI, seed: int) -> None:
    forced: Any = {"type": "web_search"}
    made = await client.responses.create(
        model=MODEL,
        input="Where?",
        tools=[{"type": "web_search"}],
        tool_choice=forced,
        max_tool_calls=1,
        max_output_tokens=200,
        extra_body={"seed": seed},
    )
    calls = [item.to_dict() for item in made.output if item.type == "web_search_call"]
    action: Any = calls[0]["action"]
    assert (made.status, calls[0]["status"], action["type"]) == ("completed", "completed", "search")
