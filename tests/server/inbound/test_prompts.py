from typing import Any

import pytest

from harmony.tokenizer import decode, encode
from harmony.vocab import longest_token
from server.errors import ContextLengthExceeded, InvalidRequest
from server.inbound import prompts
from server.inbound.prompts import read_prompts

ROOMY = 1_000


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a b", ["a b"]),
        ([64, 65], [decode([64, 65])]),
        (["a", [64], "b"], ["a", decode([64]), "b"]),
    ],
)
def test_prompts_are_text_or_ids(value: Any, texts: list[str]) -> None:
    assert [decode(ids) for ids in read_prompts(value, ROOMY)] == texts


def test_text_that_fits_no_context_is_refused_before_it_is_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[str] = []

    def encode_noted(text: str, most: int, *, control: bool) -> list[int]:
        encoded.append(text)
        return encode(text)

    monkeypatch.setattr(prompts, "encode_within", encode_noted)
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
    ],
)
def test_what_is_no_prompt_is_named(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_prompts(value, ROOMY)
    assert refused.value.param == param


def test_there_are_so_many_prompts_and_no_more() -> None:
    with pytest.raises(InvalidRequest, match="at most 128 prompts") as refused:
        read_prompts([None] * 129, ROOMY)
    assert refused.value.param == "prompt"
