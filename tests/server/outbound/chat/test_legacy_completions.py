"""The logprobs of legacy completions, and the likeliest of several samples."""

from typing import Any

import pytest

from adapters.base import TokenLogprobs
from harmony.events import ContentDelta
from harmony.tokenizer import encode
from server.generation.raw_text import RawText
from server.generation.turn_events import TextDelta
from server.outbound.chat.legacy_completions import LegacyCompletionOutbound, fold, select_best


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


@pytest.mark.parametrize("cut", range(1, 6))
def test_offsets_do_not_depend_on_the_chunks(cut: int) -> None:
    ids = encode("a𓀀b")
    raw, out = RawText(), LegacyCompletionOutbound({}, echo="12")
    chunks = out.start()
    for tokens in (ids[:cut], ids[cut:]):
        for event in raw.push_many(tokens):
            if isinstance(event, ContentDelta):
                sampled = tuple(TokenLogprobs(each, 0.0, ()) for each in ids[slice(*event.span)])
                chunks += out.push(TextDelta(0, event.text, sampled))
    assert fold(chunks)["choices"][0]["logprobs"]["text_offset"] == [2, 3, 3, 3, 3, 4]
