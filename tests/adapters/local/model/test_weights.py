import logging
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GptOssConfig
from transformers.utils import import_utils

from adapters.errors import BackendFailed
from adapters.local.model import kernels, precision, weights
from adapters.local.model.weights import (
    arguments,
    check_format,
    fetch_mxfp4_kernels,
    plan,
    why_no_mxfp4,
)
from adapters.local.options import Options
from adapters.requirements import MXFP4_KERNELS

Patch = pytest.MonkeyPatch
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 1)


def config(mxfp4: bool = True) -> Any:
    """gpt-oss-20b's."""
    made = GptOssConfig(num_hidden_layers=24, num_local_experts=32)
    if mxfp4:
        made.quantization_config = {"quant_method": "mxfp4"}
    return made


@pytest.fixture
def gpu(monkeypatch: Patch) -> SimpleNamespace:
    """A GPU whose properties a test may change; both packages are there."""
    state = SimpleNamespace(free=80e9, capability=(8, 0), triton=True, kernels=True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (state.free, 80e9))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: state.capability)
    monkeypatch.setattr(weights, "is_triton_available", lambda least: state.triton)
    monkeypatch.setattr(weights, "is_kernels_available", lambda: state.kernels)
    return state


def test_packed_weights_stay_packed_where_the_gpu_has_kernels(gpu: SimpleNamespace) -> None:
    form = plan(config(), CUDA, Options())
    assert form.packed
    assert arguments(form) == {}
    # The published files hold 13.8 GB.
    assert str(form) == "packed MXFP4, 13.8 GB"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"capability": (7, 0)}, "compute capability 7.5 or newer, and cuda:1 has 7.0"),
        ({"triton": False}, "the package triton, version 3.4.0 or newer"),
        ({"kernels": False}, r"the package kernels>=[\d.]+,<[\d.]+"),
    ],
)
def test_weights_are_dequantised_for_a_reason_that_is_logged(
    gpu: SimpleNamespace, change: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    vars(gpu).update(change)
    with caplog.at_level(logging.WARNING):
        form = plan(config(), CUDA, Options())
    assert str(form) == "dequantised MXFP4, 41.8 GB"
    assert arguments(form)["quantization_config"].dequantize
    assert "41.8 GB" in caplog.text
    gpu.free = 24e9
    with pytest.raises(BackendFailed, match=rf"take 41.8 GB \(.*{reason}\).*cuda:1 has 24.0 GB"):
        plan(config(), CUDA, Options())


def test_the_version_of_kernels_decides_as_it_does_in_transformers(
    gpu: SimpleNamespace, monkeypatch: Patch
) -> None:
    """One that is too new is no better than none: transformers would dequantise."""
    monkeypatch.setattr(weights, "is_kernels_available", import_utils.is_kernels_available)
    real = import_utils._is_package_available
    for version, served in (("0.17.2", True), ("0.18.0", False), ("0.16.9", False)):

        def available(name: str, version: str = version, **more: Any) -> Any:
            return (True, version) if name == "kernels" else real(name, **more)

        monkeypatch.setattr(import_utils, "_is_package_available", available)
        import_utils.is_kernels_available.cache_clear()
        assert (why_no_mxfp4(CUDA) is None) is served
    import_utils.is_kernels_available.cache_clear()


def test_the_packages_that_the_lock_names_keep_weights_packed() -> None:
    from packaging.requirements import Requirement
    from packaging.version import Version

    (requirement,) = [
        Requirement(line)
        for line in metadata.requires("gpt-oss-server") or ()
        if line.startswith("kernels")
    ]
    least, most = import_utils.KERNELS_MIN_VERSION, import_utils.KERNELS_MAX_VERSION
    assert requirement.specifier.contains(Version(least))
    assert not requirement.specifier.contains(Version(most))


def test_weights_that_are_not_packed_are_left_as_they_are(gpu: SimpleNamespace) -> None:
    gpu.free = 90e9
    form = plan(config(mxfp4=False), CUDA, Options(dtype="float32"))
    assert str(form) == "as stored, 83.7 GB"
    assert arguments(form) == {}


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_other_devices_have_no_kernels(device: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(weights, "free_memory", lambda device: 1e12)
    assert not plan(config(), torch.device(device), Options(device=device)).packed


def test_a_large_model_runs_on_a_cpu_that_was_asked_for(monkeypatch: Patch) -> None:
    monkeypatch.setattr(weights, "free_memory", lambda device: 64e9)
    with pytest.raises(BackendFailed, match=r"41\.8 GB, with .* set --backend-option device=cpu"):
        plan(config(), CPU, Options())
    assert plan(config(), CPU, Options(device="cpu")).size > 41e9


@pytest.mark.parametrize(
    ("layers", "device", "asked", "multiplies", "free", "widened"),
    [
        (1, CPU, "auto", False, 80e9, True),
        (1, CPU, "auto", True, 80e9, False),
        (1, CPU, "bfloat16", False, 80e9, False),
        (1, CPU, "float32", False, 80e9, False),
        (1, CUDA, "auto", False, 80e9, False),
        (24, CPU, "auto", False, 80e9, False),
        (1, CPU, "auto", False, 3e9, False),
    ],
)
def test_a_small_model_is_widened_if_the_cpu_multiplies_no_bfloat16(
    gpu: SimpleNamespace,
    monkeypatch: Patch,
    layers: int,
    device: torch.device,
    asked: Any,
    multiplies: bool,
    free: float,
    widened: bool,
) -> None:
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: multiplies)
    monkeypatch.setattr(weights, "free_memory", lambda device: free)
    model = GptOssConfig(num_hidden_layers=layers, num_local_experts=4, dtype="bfloat16")
    form = plan(model, device, Options(device=str(device), dtype=asked))
    assert form.widened is widened
    assert ("widened to float32" in str(form)) is widened


@pytest.mark.parametrize("tied", [True, False])
def test_the_embedding_of_a_widened_model_keeps_its_size(monkeypatch: Patch, tied: bool) -> None:
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(weights, "free_memory", lambda device: 80e9)
    model = GptOssConfig(
        num_hidden_layers=1, num_local_experts=9, dtype="bfloat16", tie_word_embeddings=tied
    )
    matrix = model.vocab_size * model.hidden_size
    others = weights._size(weights._meta_model(model), 1, packed=False) - matrix * (
        1 if tied else 2
    )
    found = plan(model, CPU, Options(device="cpu")).size
    assert found == 4 * (others + matrix) + 2 * matrix


def test_experts_that_are_computed_at_once_are_in_memory_twice(monkeypatch: Patch) -> None:
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(weights, "free_memory", lambda device: 80e9)
    sizes = []
    for number in (8, 9):
        model = GptOssConfig(num_hidden_layers=1, num_local_experts=number, dtype="bfloat16")
        sizes.append(plan(model, CPU, Options(device="cpu")).size)
    one = 3 * model.hidden_size * model.intermediate_size
    biases = 2 * model.intermediate_size + 2 * model.hidden_size  # with the router's row
    assert sizes[1] - sizes[0] == 4 * (one + biases) + 4 - 2 * 8 * one


def test_other_types_than_bfloat16_are_computed_as_they_are_stored(monkeypatch: Patch) -> None:
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    model = GptOssConfig(num_hidden_layers=1, num_local_experts=4, dtype="float32")
    assert not plan(model, CPU, Options(device="cpu")).widened


def test_a_model_that_is_larger_than_the_memory_is_refused(monkeypatch: Patch) -> None:
    monkeypatch.setattr(weights, "free_memory", lambda device: 32e9)
    with pytest.raises(BackendFailed, match=r"take 41.8 GB, and cpu has 32.0 GB in all: choose"):
        plan(config(), CPU, Options(device="cpu"))


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (True, r"13\.8 GB, and cuda:1 has 3\.1 GB free of 80\.0 GB: end what else uses it"),
        (False, r"83\.7 GB, and cuda:1 has 3\.1 GB free of 80\.0 GB: choose a larger GPU"),
    ],
)
def test_a_gpu_that_is_busy_or_too_small_is_refused_with_the_way_out(
    gpu: SimpleNamespace, kept: bool, words: str
) -> None:
    gpu.free = 3.1e9
    with pytest.raises(BackendFailed, match=words):
        plan(config(mxfp4=kept), CUDA, Options(dtype="auto" if kept else "float32"))


def test_kernels_are_brought_to_this_machine_before_they_are_loaded(monkeypatch: Patch) -> None:
    """Otherwise transformers asks the hub for them, also where the cache has them."""
    steps: list[tuple[str, str]] = []
    monkeypatch.setattr(kernels, "provide", lambda name: steps.append(("provided", name)))
    monkeypatch.setattr(weights, "get_kernel", lambda name, version: steps.append(("loaded", name)))
    fetch_mxfp4_kernels()
    assert steps == [("provided", MXFP4_KERNELS), ("loaded", MXFP4_KERNELS)]


def test_packed_experts_are_there_after_loading(gpu: SimpleNamespace) -> None:
    form = plan(config(), CUDA, Options())

    class Mxfp4GptOssExperts(torch.nn.Module):
        """Named as transformers' own."""

    check_format(torch.nn.Sequential(Mxfp4GptOssExperts()), form)
    with pytest.raises(BackendFailed, match="has dequantised the experts"):
        check_format(torch.nn.Sequential(torch.nn.Linear(1, 1)), form)
