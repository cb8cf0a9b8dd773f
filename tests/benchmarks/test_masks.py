"""The requests of the benchmark of grammars' costs."""

import pytest

from benchmarks.masks import KINDS, SAMPLINGS, request
from harmony.tokenizer import decode


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_has_its_prompt_and_its_grammar(kind: str) -> None:
    made = await request(KINDS[kind](0), SAMPLINGS["greedy"], 0)
    assert made.grammar
    assert decode(made.prompt_token_ids).endswith("<|start|>assistant")
