import hashlib
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import assume, example, given
from hypothesis import strategies as st

from harmony import tokenizer, vocab
from harmony.tokenizer import (
    Utf8Decoder,
    decode,
    encode,
    encode_with_control,
    encode_within,
    encoding,
)

RANKS_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
ANY_TEXT = st.text(st.characters(codec=None, categories=None))  # lone surrogates too
BOUNDARIES = [
    "it's",
    "Ünit",
    "漢字",
    "。",
    ", ",
    " (",
    "\n",
    "\n\n/",
    " ",
    "  ",
    "12345",
    "_",
    "'ll",
    ".",
]
HARMONY_TEXT = st.lists(st.sampled_from(list(vocab.SPECIAL_TOKENS)[:12]) | st.text()).map("".join)


@pytest.fixture(scope="module")
def official(ranks_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tiktoken.Encoding:
    """tiktoken's own o200k_harmony, whose download it finds already there."""
    cache = tmp_path_factory.mktemp("tiktoken")
    ranks = (ranks_folder / "o200k_base.tiktoken").read_bytes()
    (cache / hashlib.sha1(RANKS_URL.encode()).hexdigest()).write_bytes(ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        return tiktoken.get_encoding("o200k_harmony")


def test_the_encoding_has_exactly_the_checkpoints_vocabulary() -> None:
    assert encoding(vocab.ranks()).n_vocab == vocab.VOCAB_SIZE


@given(text=HARMONY_TEXT)
@example(text="I'll say: DON'T  \t\n\r\n  12345 naïve_фу 漢字 👩\u200d👩\u200d👧 \x00 ")
def test_text_is_split_as_tiktoken_splits_it(official: tiktoken.Encoding, text: str) -> None:
    assert encode(text) == official.encode_ordinary(text)
    assert encode_with_control(text) == official.encode(text, allowed_special="all")


@given(text=HARMONY_TEXT, size=st.integers(1, 20))
def test_a_text_that_is_read_in_slices_loses_nothing(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "SLICE", size)
        patch.setattr(tokenizer, "_WINDOW", min(size, 8))
        ids = encode(text)
        assert tokenizer.count(text) == len(ids)
    assert decode(ids) == text


@given(text=HARMONY_TEXT, size=st.integers(1, 20))
def test_control_tokens_are_whole_in_whatever_slices(
    official: tiktoken.Encoding, text: str, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "SLICE", size)
        patch.setattr(tokenizer, "_WINDOW", min(size, 8))
        ids = encode_with_control(text)
    assert decode(ids) == text
    whole = official.encode(text, allowed_special="all")
    assert [token for token in ids if token >= vocab.FIRST_SPECIAL] == [
        token for token in whole if token >= vocab.FIRST_SPECIAL
    ]


@pytest.mark.parametrize("before", range(tokenizer.SLICE - 9, tokenizer.SLICE + 2))
@pytest.mark.parametrize("stray", ["", "<|", "<"])
def test_a_control_token_across_the_end_of_a_slice_is_one(before: int, stray: str) -> None:
    text = "A" * (before - len(stray)) + stray + "<|end|>"
    assert encode_with_control(text)[-1] == vocab.END
    assert vocab.END not in encode(text)


@given(words=st.lists(st.text(max_size=5) | st.sampled_from(BOUNDARIES), max_size=40))
def test_a_long_text_is_cut_where_the_pattern_cuts_it(
    official: tiktoken.Encoding, words: list[str]
) -> None:
    text = "".join(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "SLICE", 30)
        patch.setattr(tokenizer, "_WINDOW", 30)
        pieces = list(tokenizer._slices(text))
        assume(all(tokenizer._BOUNDARY.search(text, 0, len(text)) for text in pieces[:-1]))
        whole = official.encode_ordinary(text)
        assert [id for piece in pieces for id in official.encode_ordinary(piece)] == whole


def test_no_more_is_tokenized_than_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    official = tokenizer._encode

    def noted(text: str, *, control: bool = False) -> list[int]:
        read.append(text)
        return official(text, control=control)

    monkeypatch.setattr(tokenizer, "_encode", noted)
    ids = encode_within("word " * 100_000, 20_000)
    assert len(ids) > 20_000
    assert max(map(len, read)) <= tokenizer.SLICE
    assert sum(map(len, read)) < 3 * tokenizer.SLICE


@given(text=ANY_TEXT | HARMONY_TEXT)
def test_text_never_becomes_a_special_token(text: str) -> None:
    assert all(token < vocab.FIRST_SPECIAL for token in encode(text))


@given(text=HARMONY_TEXT)
def test_text_survives_encoding(text: str) -> None:
    assert decode(encode(text)) == text
    assert decode(encode_with_control(text)) == text


def test_lone_surrogates_are_encoded_as_replacement_characters() -> None:
    assert decode(encode("a\ud800b")) == "a\ufffdb"


@pytest.mark.parametrize("filler", [" ", "\t ", "\n", " \n"])
def test_a_million_characters_of_white_space_are_encoded(filler: str) -> None:
    text = filler * (1_100_000 // len(filler)) + "x"
    assert decode(encode(text)) == text


def test_control_tokens_are_encoded_where_they_are_meant() -> None:
    assert encode_with_control("<|start|>user<|message|>") == [vocab.START, 1428, vocab.MESSAGE]


def test_control_tokens_are_decoded_as_they_are_spelled() -> None:
    assert decode([vocab.START, 1428, vocab.CALL]) == "<|start|>user<|call|>"


def test_bytes_that_are_no_utf8_are_decoded_as_replacement_characters() -> None:
    ghost = encode("👻")
    assert len(ghost) > 1
    assert decode([*ghost[:1], 1428]) == "\ufffduser"


@given(ids=st.lists(st.integers()))
@example(ids=[-1, vocab.VOCAB_SIZE, 10**30])
def test_any_numbers_are_decoded(ids: list[int]) -> None:
    unknown = [i for i in ids if i not in range(vocab.VOCAB_SIZE)]
    assert decode(ids).count("\ufffd") >= len(unknown)


@given(data=st.data(), whole=st.binary() | st.text().map(str.encode))
def test_pieces_of_bytes_decode_as_the_whole_does(data: Any, whole: bytes) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    decoder = Utf8Decoder()
    pieces = [
        decoder.push(whole[start:end])
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
    ]
    assert "".join([*pieces, decoder.finish()]) == whole.decode("utf-8", "replace")


def test_a_character_comes_out_when_its_last_byte_is_in() -> None:
    decoder = Utf8Decoder()
    ghost = "👻".encode()
    assert [decoder.push(ghost[i : i + 1]) for i in range(4)] == ["", "", "", "👻"]


def test_a_decoder_counts_the_bytes_of_an_incomplete_character() -> None:
    decoder = Utf8Decoder()
    counts = [decoder.pending]
    for byte in "👻é".encode()[:-1]:
        decoder.push(bytes([byte]))
        counts.append(decoder.pending)
    assert counts == [0, 1, 2, 3, 0, 1]
    decoder.finish()
    assert decoder.pending == 0


def test_a_decoder_can_be_used_again_after_its_end() -> None:
    decoder = Utf8Decoder()
    decoder.push(b"\xf0\x9f")
    assert decoder.finish() == "\ufffd"
    assert decoder.push(b"ok") == "ok"
