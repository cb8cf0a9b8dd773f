"""The packed file: what goes in comes out, up to rounding, and becomes a checkpoint's tensors."""

import hashlib
from pathlib import Path

import pytest
import torch

from demo import package, ship, weights
from demo.embedding import core, families, features, signs
from demo.model import Shape
from demo.train import Demo, fresh
from harmony import vocab
from harmony.tokenizer import encode

SMALL = Shape(layers=4, heads=4, kv_heads=2, intermediate=32)
KNOWN_TOKENS = torch.arange(100)


@pytest.fixture(scope="module")
def model() -> Demo:
    return fresh(0, SMALL, KNOWN_TOKENS).model


@pytest.fixture(scope="module")
def packed(model: Demo) -> bytes:
    return weights.pack(model.state_dict(), model.known)


def test_unpacked_is_what_was_packed_up_to_rounding(model: Demo, packed: bytes) -> None:
    state, known = weights.unpack(packed)
    assert torch.equal(known, KNOWN_TOKENS)
    assert state.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        room = tensor.abs().max() / 29 + 1e-6
        assert (state[name] - tensor).abs().max() <= room, name


def test_packing_is_deterministic(model: Demo, packed: bytes) -> None:
    assert packed == weights.pack(model.state_dict(), model.known)


def test_built_rows_are_those_that_were_trained(model: Demo) -> None:
    _, embeddings, outputs = weights.build(model.state_dict(), model.known)
    ids = torch.tensor([0, 50, 5000, vocab.CALL, vocab.VOCAB_SIZE - 1])
    torch.testing.assert_close(embeddings[ids], model.input(ids).bfloat16())
    torch.testing.assert_close(outputs[ids], model.output(ids).bfloat16())
    assert len(embeddings) == len(outputs) == vocab.VOCAB_SIZE


def test_packaged_configuration_is_the_trained_shape() -> None:
    assert weights.config(Shape()) == package.CONFIG


def test_words_share_a_core_across_spaces_case_and_punctuation() -> None:
    assert core(b" Berlin") == core(b"berlin") == core(b"_Berlin") == "berlin"
    assert core(b'":"') == '":"'
    assert core(b" ") == " "


def test_tokens_of_one_core_have_the_same_signs_and_others_differ() -> None:
    spaced, bare = encode(" Berlin")[0], encode("Berlin")[0]
    assert torch.equal(signs()[spaced], signs()[bare])
    assert not torch.equal(features()[spaced], features()[bare])
    assert (signs()[spaced] == signs()[encode(" London")[0]]).sum() < 80


def test_families_stand_together() -> None:
    order, place = families()
    spaced, bare = encode(" Berlin")[0], encode("Berlin")[0]
    assert abs(int(place[spaced]) - int(place[bare])) < 10
    assert order[place[spaced]] == spaced


def test_shipping_writes_the_packed_file_and_prints_its_hash(
    model: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"model": model.state_dict(), "known": model.known}, tmp_path / "state.pt")
    target = tmp_path / "data" / "demo.xz"
    monkeypatch.setattr("sys.argv", ["ship", str(tmp_path / "state.pt"), "--to", str(target)])
    ship.main()
    state, _ = weights.unpack(target.read_bytes())
    assert state.keys() == model.state_dict().keys()
    assert hashlib.sha256(target.read_bytes()).hexdigest() in capsys.readouterr().out
