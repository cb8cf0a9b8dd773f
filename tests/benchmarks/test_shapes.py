"""Checkpoints with random MXFP4 weights, and what their steps cost."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from adapters.local.model.loading import load
from adapters.local.options import parse_options
from benchmarks.library import shapes
from benchmarks.library.shapes import LARGE, TINY, Shape, ensure, read_shape


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint gets an empty file instead of a tokenizer, whose writing takes seconds."""

    def write(folder: Path, progress: object) -> None:
        (folder / "tokenizer.json").touch()

    monkeypatch.setattr(shapes, "write_tokenizer", write)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure(TINY, tmp_path_factory.mktemp("shapes") / "tiny")


def test_a_checkpoint_has_its_shape(tiny: Path) -> None:
    assert read_shape(tiny) == TINY
    assert (tiny / "tokenizer.json").stat().st_size > 1_000_000
    assert json.loads((tiny / "config.json").read_text())["quantization_config"][
        "quant_method"
    ] == ("mxfp4")


def test_it_is_written_once(tiny: Path) -> None:
    before = (tiny / "config.json").stat().st_mtime_ns
    assert ensure(TINY, tiny) == tiny
    assert (tiny / "config.json").stat().st_mtime_ns == before
    assert [path.name for path in tiny.parent.iterdir()] == ["tiny"]


@pytest.mark.usefixtures("_bare")
def test_its_weights_are_the_same_each_time_and_differ_between_layers(
    tiny: Path, tmp_path: Path
) -> None:
    again = ensure(TINY, tmp_path / "again")
    files = sorted(path.name for path in tiny.glob("*.safetensors"))
    assert len(files) == TINY.layers + 2
    assert all((tiny / file).read_bytes() == (again / file).read_bytes() for file in files)
    name = "model.layers.{}.mlp.experts.down_proj_blocks"
    one, other = (
        load_file(tiny / f"model-layer-{layer:02}.safetensors")[name.format(layer)]
        for layer in range(2)
    )
    assert not torch.equal(one, other)
    assert set(one.flatten().tolist()) == set(range(256))


@pytest.mark.usefixtures("_bare")
def test_nothing_is_left_of_one_that_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(shapes, "save_file", full)
    with pytest.raises(OSError, match="no space"):
        ensure(TINY, tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


def test_the_engine_loads_it_with_all_weights(tiny: Path) -> None:
    """It refuses a checkpoint that lacks some, or has them in another size."""
    # In a type of which a CPU packs no weights.
    options = parse_options({"device": "cpu", "dtype": "float16"})
    model = load(str(tiny), options, lambda *_: None)
    layers = sum(parameter.numel() for parameter in model.model.layers.parameters())
    expected = TINY.layers * (TINY.attention + TINY.experts * TINY.expert)
    # The norms, biases and sinks are left out of what a step costs.
    assert expected < layers < 1.05 * expected


def test_a_wide_step_of_20b_reads_nearly_all_weights() -> None:
    """13.8 GB (docs/gpus.md) with the input embeddings, of which a step reads a few rows."""
    embeddings = LARGE.head * 2
    assert LARGE.decode_bytes(1000, 0, packed=True) + embeddings == pytest.approx(13.8e9, rel=0.01)


def test_a_narrow_step_reads_the_experts_that_it_uses() -> None:
    assert LARGE.experts_read(1) == pytest.approx(LARGE.active)
    assert LARGE.active < LARGE.experts_read(4) < 4 * LARGE.active
    one, many = (LARGE.decode_bytes(streams, 0, packed=True) for streams in (1, 64))
    assert one < many


def test_sliding_layers_read_their_window() -> None:
    """49 kB for each cached token (docs/gpus.md), half of it in full layers."""
    base = LARGE.decode_bytes(1, 0, packed=True)
    within = LARGE.decode_bytes(1, 128, packed=True) - base
    beyond = LARGE.decode_bytes(1, 1128, packed=True) - base - within
    assert within / 128 == pytest.approx(49_152)
    assert beyond / 1000 == pytest.approx(49_152 / 2)


def test_experts_in_bfloat16_are_larger() -> None:
    shape = Shape(64, 64, 1, 2, 1, 32, 4, 4)
    packed, wide = (shape.decode_bytes(1, 0, packed=each) for each in (True, False))
    assert wide - packed == 4 * shape.expert * (2 - 0.53125)


def test_a_prompt_costs_two_operations_for_each_active_weight() -> None:
    """3.6 billion weights of 20b are active, those of the output layer included."""
    operations = LARGE.prefill_operations(1000) - 2 * LARGE.head
    assert operations / 1000 / 2 == pytest.approx(3.6e9 - LARGE.head, rel=0.05)
    # Twice the tokens cost more than twice, for their attention to each other.
    assert LARGE.prefill_operations(64_000) > 2.2 * LARGE.prefill_operations(32_000)
