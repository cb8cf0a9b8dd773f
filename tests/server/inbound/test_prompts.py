from typing import Any

import pytest

from harmony.tokenizer import decode, encode
from harmony.vocab import longest_token
from server.errors import ContextLengthExceeded, InvalidRequest
from server.inbound import prompts
from server.inbound.prompts import read_prompts

LONG_CONTEXT = 1_000


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a b", ["a b"]),
        ([64, 65], [decode([64, 65])]),
        (["a", [64], "b"], ["a", decode([64]), "b"]),
    ],
)
def test_prompts_are_text_or_ids(value: Any, texts: list[str]) -> None:
    assert [decode(ids) for ids in read_prompts(value, LONG_CONTEXT)] == texts


def test_text_that_is_too_long_is_refused_before_it_is_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[str] = []

    def record(text: str, most: int, *, control: bool) -> list[int]:
        encoded.append(text)
        return encode(text)

    monkeypatch.setattr(prompts, "encode_within", record)
    fits = " " * longest_token()
    assert len(read_prompts(fits, 1)[0]) == 1
    with pytest.raises(ContextLengthExceeded) as refused:
        read_prompts(["a", fits + " "], 1)
    assert refused.value.param == "prompt.1"
    assert encoded == [fits, "a"]


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (None, "prompt"),
        ([], "prompt"),
        ("", "prompt"),
        (["a", ""], "prompt.1"),
        (["a", None], "prompt.1"),
        ([[64], [-1]], "prompt.1.0"),
        ([1, True], "prompt.1"),
    ],
)
def test_an_error_names_the_bad_prompt(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_prompts(value, LONG_CONTEXT)
    assert refused.value.param == param


def test_the_number_of_prompts_is_limited() -> None:
    with pytest.raises(InvalidRequest, match="at most 128 prompts") as refused:
        read_prompts([None] * 129, LONG_CONTEXT)
    assert refused.value.param == "prompt"
