"""Legacy completion requests as plans."""

from typing import Any

import pytest

from harmony.tokenizer import encode
from server.inbound.legacy_completions import CompiledCompletion, compile
from server.schemas.legacy_completions import CreateCompletion


def compiled(**fields: Any) -> CompiledCompletion:
    return compile(CreateCompletion(**{"model": "m", "prompt": "a", **fields}), context_length=100)


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [
        ({}, None),
        ({"n": 2}, None),
        ({"logprobs": 2}, 2),
        ({"best_of": 2}, 0),
        ({"best_of": 2, "logprobs": 2}, 2),
    ],
)
def test_logprobs_are_sampled_where_they_are_shown_or_rank(
    fields: dict[str, int], logprobs: int | None
) -> None:
    assert {plan.top_logprobs for plan in compiled(**fields).plans} == {logprobs}


def test_each_prompt_has_plans_with_seeds_of_their_own() -> None:
    made = compiled(prompt=["a", "b"], n=2, best_of=3, seed=7, echo=True)
    one, other = tuple(encode("a")), tuple(encode("b"))
    assert [(plan.prompt, plan.seed) for plan in made.plans] == [
        *((one, 7), (one, 8), (one, 9)),
        *((other, 7), (other, 8), (other, 9)),
    ]
    assert made.echoes == (*"aaa", *"bbb")
    assert (made.n, made.best_of) == (2, 3)
