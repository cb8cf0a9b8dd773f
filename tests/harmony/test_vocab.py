import lzma
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from harmony import vocab


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package folder of our own, whose vocabulary a test may damage."""
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "o200k_base.tiktoken.xz"


def test_every_id_has_its_bytes() -> None:
    pieces = vocab.token_bytes()
    assert len(pieces) == vocab.VOCAB_SIZE
    assert all(pieces[token] == piece for piece, token in vocab.ranks().items())
    assert all(pieces[token] == name.encode() for name, token in vocab.SPECIAL_TOKENS.items())


def test_ordinary_and_special_tokens_share_no_id_and_leave_no_gap() -> None:
    ids = [*vocab.ranks().values(), *vocab.SPECIAL_TOKENS.values()]
    assert sorted(ids) == list(range(vocab.VOCAB_SIZE))


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("<|startoftext|>", 199998),
        ("<|endoftext|>", vocab.ENDOFTEXT),
        ("<|return|>", vocab.RETURN),
        ("<|constrain|>", vocab.CONSTRAIN),
        ("<|channel|>", vocab.CHANNEL),
        ("<|start|>", vocab.START),
        ("<|end|>", vocab.END),
        ("<|message|>", vocab.MESSAGE),
        ("<|call|>", vocab.CALL),
        ("<|endofprompt|>", 200018),
        ("<|reserved_200000|>", 200000),
        ("<|reserved_201087|>", 201087),
    ],
)
def test_special_tokens_have_the_names_of_o200k_harmony(name: str, token: int) -> None:
    assert vocab.SPECIAL_TOKENS[name] == token


def test_200018_has_one_name() -> None:
    assert "<|reserved_200018|>" not in vocab.SPECIAL_TOKENS


def test_a_turn_ends_with_return_call_or_end_of_text() -> None:
    assert {vocab.token_bytes()[token] for token in vocab.STOP_TOKENS} == {
        b"<|return|>",
        b"<|call|>",
        b"<|endoftext|>",
    }


def test_the_licence_of_the_ranks_is_packaged() -> None:
    notice = resources.files("harmony").joinpath("data", "LICENSE.o200k_base").read_text()
    assert notice.startswith("MIT License")


def test_other_ranks_than_the_published_are_refused(packaged: Path) -> None:
    packaged.write_bytes(lzma.compress(b"IQ== 0\n"))
    with pytest.raises(vocab.VocabularyCorrupt, match="does not hold the published"):
        vocab.ranks_file()


def test_a_damaged_archive_is_refused(packaged: Path) -> None:
    packaged.write_bytes(b"\xfd7zXZ\x00 and no more")
    with pytest.raises(vocab.VocabularyCorrupt, match="cannot be unpacked"):
        vocab.ranks_file()
