"""Legacy completions: their text and logprobs, and the likeliest of several samples."""

from typing import Any

import pytest

from adapters.base import TokenLogprobs
from harmony.events import ContentDelta
from harmony.tokenizer import encode
from server.errors import ServerFailed
from server.generation.raw_text import RawText
from server.generation.turn_events import TextDelta, TurnEvent, TurnFinished, Usage
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


def test_the_best_choices_of_each_prompt_are_numbered_anew() -> None:
    logprobs = (-3.0, -1.0, -2.0) * 2
    sampled = [choice(text, value) for text, value in zip("abcdef", logprobs, strict=True)]
    found = select_best({"id": "c", "choices": sampled}, n=2, best_of=3, logprobs=True)
    assert found["id"] == "c"
    shown = [(each["index"], each["text"]) for each in found["choices"]]
    assert shown == [(0, "b"), (1, "c"), (2, "e"), (3, "f")]
    assert [each["logprobs"] for each in found["choices"][:1]] == [sampled[1]["logprobs"]]


def test_all_choices_are_the_best_where_all_are_asked_for() -> None:
    sampled = {"choices": [choice("a", -2.0), choice("b", -1.0)]}
    assert select_best(sampled, n=2, best_of=2, logprobs=False) == sampled


def play(out: LegacyCompletionOutbound, *events: TurnEvent) -> dict[str, Any]:
    """The completion that has these events."""
    return fold([*out.start(), *(chunk for event in events for chunk in out.push(event))])


def test_a_completion_is_the_echo_and_all_text() -> None:
    out = LegacyCompletionOutbound({"id": "c"}, echo="One")
    end = TurnFinished("length", Usage(1, output=2))
    assert play(out, TextDelta(0, " two"), TextDelta(0, " three"), end) == {
        "id": "c",
        "choices": [
            {"index": 0, "text": "One two three", "logprobs": None, "finish_reason": "length"}
        ],
    }
    assert out.usage == end.usage


def test_each_token_has_its_text_and_its_alternatives() -> None:
    first, second, third = encode("a𓀀")[:3]
    deltas = [
        TextDelta(0, "a", (TokenLogprobs(first, -0.5, ((first, -0.5), (second, -1.0))),)),
        TextDelta(0, "𓀀", (TokenLogprobs(second, -0.2), TokenLogprobs(third, -0.1))),
        TextDelta(0, "!"),
    ]
    (only,) = play(LegacyCompletionOutbound({}), *deltas)["choices"]
    lists = only["logprobs"]
    part = lists["tokens"][1]
    assert part.startswith("bytes:\\x")
    assert lists["tokens"][0] == "a"
    assert lists["token_logprobs"] == [-0.5, -0.2, -0.1]
    assert lists["top_logprobs"] == [{"a": -0.5, part: -1.0}, {}, {}]


def test_token_ids_are_shown_on_request() -> None:
    end = TurnFinished("stop", Usage(2), prompt_token_ids=(1, 2), token_ids=(3,))
    ids = {"prompt_token_ids": (1, 2), "token_ids": (3,)}
    (shown,) = play(LegacyCompletionOutbound({}, show_ids=True), end)["choices"]
    assert shown.items() >= ids.items()
    (hidden,) = play(LegacyCompletionOutbound({}), end)["choices"]
    assert not hidden.keys() & ids.keys()


def test_choices_are_in_the_order_of_their_indices() -> None:
    chunks = [
        chunk
        for index in (1, 0)
        for out in [LegacyCompletionOutbound({}, index=index)]
        for event in (TextDelta(0, str(index)), TurnFinished("stop", Usage(1)))
        for chunk in out.push(event)
    ]
    assert [(each["index"], each["text"]) for each in fold(chunks)["choices"]] == [
        (0, "0"),
        (1, "1"),
    ]


def test_a_failure_is_the_error_body_and_a_cancellation_sends_nothing() -> None:
    out = LegacyCompletionOutbound({})
    assert out.fail(ServerFailed("broken"))[0]["error"]["message"] == "broken"
    assert out.cancel() == []


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
