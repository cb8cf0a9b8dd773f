"""A web search that the request forces: the grammar has a random model call the browser, and its
weights prefer `search` among the three functions.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import OpenAI

from benchmarks.constrained import PREFERRED, write_model
from harmony.tokenizer import encode

MODEL = "gpt-oss-test"
SEARCH_LOGIT = 12.0
WORD = "browser"
WORD_LOGIT = 21.0


@pytest.fixture(scope="module")
def client(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    folder = tmp_path_factory.mktemp("model")
    # Where the grammar lets the model choose, it calls `search` and looks for the word.
    (search,), (word,) = encode(".search"), encode(WORD)
    write_model(folder, PREFERRED | {search: SEARCH_LOGIT, word: WORD_LOGIT})
    options = ("--backend-option", "device=cpu", "--store", "memory")
    url = serve(
        None,
        *("--backend", "transformers", "--model", str(folder), "--served-model-name", MODEL),
        *options,
    )
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("seed", range(3))
def test_a_forced_call_is_a_search(client: OpenAI, seed: int) -> None:
    made = client.responses.create(
        model=MODEL,
        input="Where?",
        tools=[{"type": "web_search"}],
        tool_choice={"type": "web_search"},
        max_tool_calls=1,
        max_output_tokens=200,
        extra_body={"seed": seed},
    )
    calls = [item.to_dict() for item in made.output if item.type == "web_search_call"]
    action: Any = calls[0]["action"]
    assert (made.status, calls[0]["status"], action["type"]) == ("completed", "completed", "search")
