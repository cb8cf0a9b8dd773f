"""The benchmark of GPUs, with a CPU as the device, and a real server."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.gpu import Floors, Sizes, Speed, compare, speed
from benchmarks.library import shapes
from benchmarks.library.engines import OURS, OURS_ON_VLLM, VLLM, Engine, Setup
from benchmarks.library.processes import NotStarted
from benchmarks.library.shapes import LARGE, TINY

H100 = Speed(bandwidth=3.0e12, operations=800e12)


def test_a_device_is_measured() -> None:
    found = speed("cpu", Sizes(1 << 20, 64, 2))
    assert found.bandwidth > 0
    assert found.operations > 0


def test_the_floor_of_decoding_is_the_bandwidth() -> None:
    """One stream of 20b reads 3.2 GB for each token, most of it the output layer and experts."""
    floors = Floors(LARGE, H100, packed=True)
    one = floors.decode(1, 100)
    assert one == pytest.approx(3.0e12 / LARGE.decode_bytes(1, 100, packed=True))
    assert one < floors.decode(64, 100) < 64 * one
    assert floors.decode(64, 10_000) < floors.decode(64, 100)


def test_the_floor_of_a_prompt_is_the_operations() -> None:
    floors = Floors(LARGE, H100, packed=True)
    assert floors.prefill(1024) == pytest.approx(1024 / (LARGE.prefill_operations(1024) / 800e12))


@pytest.mark.parametrize(
    ("stored", "device", "reason"),
    [
        ({"quant_method": "mxfp4"}, "cuda", None),
        ({"quant_method": "mxfp4"}, "cpu", "there are no MXFP4 kernels for cpu"),
        ({"quant_method": "awq"}, "cuda", "the checkpoint has no MXFP4"),
        (None, "cuda", "the checkpoint has no MXFP4"),
    ],
)
def test_experts_are_packed_where_the_checkpoint_and_the_device_have_mxfp4(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stored: dict[str, str] | None,
    device: str,
    reason: str | None,
) -> None:
    if device == "cuda":
        monkeypatch.setattr(gpu, "why_no_mxfp4", lambda device: None)
    content = {} if stored is None else {"quantization_config": stored}
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert gpu.why_not_packed(tmp_path, device) == reason


def test_rates_are_compared_with_the_floor_and_with_vllm() -> None:
    rates = {OURS: {"a": 50.0}, VLLM: {"a": 100.0}, OURS_ON_VLLM: {"a": 99.0}}
    assert compare(rates, {"a": 200.0}) == {
        "a: ours, tokens/s": 50.0,
        "a: ours / floor": 0.25,
        "a: ours / vLLM": 0.5,
        "a: vLLM, tokens/s": 100.0,
        "a: vLLM / floor": 0.5,
        "a: ours on vLLM, tokens/s": 99.0,
        "a: ours on vLLM / floor": 0.495,
        "a: ours on vLLM / vLLM": 0.99,
    }


def test_without_vllm_rates_are_compared_with_the_floor_alone() -> None:
    assert compare({OURS: {"a": 50.0}}, {"a": 200.0}) == {
        "a: ours, tokens/s": 50.0,
        "a: ours / floor": 0.25,
    }


def test_without_a_gpu_one_sentence_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert gpu.main([]) == 1
    assert "--device cpu" in capsys.readouterr().err


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpu, "FOLDER", tmp_path)
    monkeypatch.setattr(gpu, "ON_CPU", Sizes(1 << 20, 64, 2))
    return tmp_path


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which no engine reads the tokenizer, whose writing takes seconds."""
    monkeypatch.setattr(shapes, "write_tokenizer", lambda folder, progress: None)


SMALL = ["--device", "cpu", "--streams", "1", "2", "--prompts", "40", "--tokens", "4"]
SMALL += ["--rounds", "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are measured by /proc")
def test_all_of_it_runs_on_a_cpu(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    file = folders / "figures.json"
    assert gpu.main([*SMALL, "--engines", OURS, "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    cases = ["decode, 1 streams", "decode, 2 streams", "prefill, 40 tokens"]
    assert list(found) == [
        f"{case}: ours{unit}" for case in cases for unit in (", tokens/s", " / floor")
    ]
    assert min(found.values()) > 0
    assert (folders / "tiny/config.json").exists()
    printed = capsys.readouterr().out
    assert "GB/s copied" in printed
    assert "experts are read as bfloat16: there are no MXFP4 kernels for cpu" in printed
    assert "ours: prefill, 40 tokens: " in printed


@pytest.mark.usefixtures("unread")
def test_options_of_the_backend_are_those_of_this_server(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setups: list[Setup] = []

    @contextmanager
    def refused(names: list[str], setup: Setup) -> Iterator[list[Engine]]:
        setups.append(setup)
        raise NotStarted("it needs CUDA")
        yield []

    monkeypatch.setattr(gpu, "started", refused)
    options = ["--backend-option", "decode_graphs=true", "--backend-option", "dtype=float32"]
    gpu.main([*SMALL, "--engines", OURS, *options])
    assert setups[0].options == ("batch_requests=2", "decode_graphs=true", "dtype=float32")


@pytest.mark.usefixtures("unread")
def test_an_engine_that_does_not_start_is_left_out(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def broken(names: list[str], setup: Setup) -> Iterator[list[Engine]]:
        raise NotStarted("no kernel for MXFP4")
        yield []

    monkeypatch.setattr(gpu, "started", broken)
    assert gpu.main([*SMALL, "--engines", VLLM]) == 1
    assert "left out: vLLM: no kernel for MXFP4" in capsys.readouterr().err


def test_the_shapes_are_those_of_mxfp4() -> None:
    for shape in (LARGE, TINY):
        assert shape.hidden % 32 == shape.intermediate % 32 == 0
