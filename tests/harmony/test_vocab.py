import hashlib
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from harmony import vocab

PUBLISHED = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The sha256 of the published ranks file, which tiktoken pins."""


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The vocabulary in a package folder that a test may change."""
    file = tmp_path / "data" / "o200k_base.tokens"
    file.parent.mkdir()
    file.write_bytes(resources.files("harmony").joinpath("data", file.name).read_bytes())
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    vocab.token_bytes.cache_clear()
    yield file
    vocab.token_bytes.cache_clear()


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


def test_the_ranks_file_is_the_published_one() -> None:
    assert hashlib.sha256(vocab.ranks_file()).hexdigest() == PUBLISHED


def test_an_intact_vocabulary_is_read(packaged: Path) -> None:
    assert len(vocab.token_bytes()) == vocab.VOCAB_SIZE


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?"])
def test_a_damaged_vocabulary_is_refused(packaged: Path, damage: Callable[[bytes], bytes]) -> None:
    packaged.write_bytes(damage(packaged.read_bytes()))
    with pytest.raises(vocab.VocabularyCorrupt, match="damaged"):
        vocab.token_bytes()
