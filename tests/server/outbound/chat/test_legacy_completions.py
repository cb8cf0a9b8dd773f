"""The likeliest of several samples."""

from typing import Any

import pytest

from server.outbound.chat.legacy_completions import select_best


def choice(text: str, *token_logprobs: float) -> dict[str, Any]:
    return {"text": text, "logprobs": {"token_logprobs": list(token_logprobs)}}


@pytest.mark.parametrize(
    ("choices", "best"),
    [
        ([choice("a", -2.0), choice("b", -1.0)], "b"),
        ([choice("a", -1.0, -1.0), choice("b", -1.5)], "a"),
        ([choice(""), choice("a", -0.5)], "a"),
        ([choice(""), choice("")], ""),
    ],
)
def test_the_best_choice_has_the_highest_mean_logprob_of_its_text(
    choices: list[dict[str, Any]], best: str
) -> None:
    selected = select_best({"choices": choices}, n=1, best_of=2, logprobs=False)["choices"]
    assert selected == [{"text": best, "index": 0, "logprobs": None}]
