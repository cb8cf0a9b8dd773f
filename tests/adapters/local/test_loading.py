import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from adapters.errors import BackendFailed
from adapters.local import loading
from adapters.local.loading import keeps_mxfp4, load, pick_attention, pick_device
from adapters.local.options import Options

Maker = Callable[[Path], Path]
CPU = Options(device="cpu")
# The 16 values that four bits of an MXFP4 block name (OCP microscaling formats, section 5.3.3).
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
FP4_VALUES = torch.tensor([*FP4, *[-value for value in FP4]])


def silent(stage: str, fraction: float) -> None:
    pass


def pack(folder: Path) -> dict[str, torch.Tensor]:
    """Rewrite the experts as packed MXFP4, as gpt-oss is published; gives their true values.

    Weights become `[experts, out, in / 32, 16]` bytes of two values each, low half first, and
    `[experts, out, in / 32]` exponents with a bias of 127.
    """
    tensors = load_file(folder / "model.safetensors")
    true = {}
    generator = torch.Generator().manual_seed(0)
    for name in [name for name in tensors if name.endswith("_proj") and "experts" in name]:
        experts, inputs, outputs = tensors.pop(name).shape
        codes = torch.randint(
            0, 16, (experts, outputs, inputs // 32, 32), dtype=torch.uint8, generator=generator
        )
        scales = torch.randint(
            120, 130, (experts, outputs, inputs // 32), dtype=torch.uint8, generator=generator
        )
        tensors[f"{name}_blocks"] = codes[..., ::2] | (codes[..., 1::2] << 4)
        tensors[f"{name}_scales"] = scales
        values = FP4_VALUES[codes.long()] * 2.0 ** (scales.float().unsqueeze(-1) - 127)
        true[name] = values.reshape(experts, outputs, inputs).transpose(1, 2)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    return true


def test_packed_mxfp4_experts_are_dequantised_exactly(tmp_path: Path, make_tiny: Maker) -> None:
    true = pack(make_tiny(tmp_path))
    model = load(str(tmp_path), CPU, silent)
    weights = dict(model.named_parameters())
    assert len(true) == 4
    for name, values in true.items():
        assert weights[name].dtype == torch.bfloat16
        assert torch.equal(weights[name].float(), values)


def test_the_dtype_is_the_checkpoints_unless_another_is_asked_for(
    tmp_path: Path, make_tiny: Maker
) -> None:
    make_tiny(tmp_path)
    assert load(str(tmp_path), CPU, silent).dtype == torch.bfloat16
    assert (
        load(str(tmp_path), Options(device="cpu", dtype="float32"), silent).dtype == torch.float32
    )


def test_progress_ends_loaded_and_leaves_transformers_bars_as_they_were(
    tmp_path: Path, make_tiny: Maker
) -> None:
    stages: list[tuple[str, float]] = []
    load(str(make_tiny(tmp_path)), CPU, lambda *stage: stages.append(stage))
    assert stages[-1] == ("weights loaded", 1.0)
    assert transformers_logging.set_tqdm_hook(None) is None


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(BackendFailed, match="a gpt2 checkpoint, not a gpt-oss"):
        load(str(tmp_path), CPU, silent)


def test_a_missing_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match=r"cannot load .*nowhere"):
        load(str(tmp_path / "nowhere"), CPU, silent)


def test_damaged_weights_are_refused(tmp_path: Path, make_tiny: Maker) -> None:
    make_tiny(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(BackendFailed, match="cannot load"):
        load(str(tmp_path), CPU, silent)


def test_missing_weights_are_refused(tmp_path: Path, make_tiny: Maker) -> None:
    """transformers would fill them with noise and warn."""
    make_tiny(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors.pop("model.norm.weight")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendFailed, match=r"lacks .*model\.norm\.weight"):
        load(str(tmp_path), CPU, silent)


@pytest.mark.parametrize(
    ("cuda", "mps", "device"),
    [(False, False, "cpu"), (False, True, "mps"), (True, False, "cuda:1")],
)
def test_the_device_is_the_best_there_is(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto") == torch.device(device)
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("capability", "kernels", "packed", "attention"),
    [
        ((9, 0), True, True, "kernels-community/vllm-flash-attn3"),
        ((9, 0), False, False, "eager"),
        ((8, 0), True, True, "eager"),
        ((7, 0), True, False, "eager"),
    ],
)
def test_kernels_are_used_where_the_device_and_the_packages_allow(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    kernels: bool,
    packed: bool,
    attention: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(loading, "find_spec", lambda name: object() if kernels else None)
    assert keeps_mxfp4(torch.device("cuda")) is packed
    assert pick_attention(torch.device("cuda")) == attention


def test_a_cpu_has_no_kernels() -> None:
    assert not keeps_mxfp4(torch.device("cpu"))
    assert pick_attention(torch.device("cpu")) == "eager"


def test_packed_weights_stay_packed_where_kernels_are(
    tmp_path: Path, make_tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(make_tiny(tmp_path))
    monkeypatch.setattr(loading, "keeps_mxfp4", lambda device: True)
    config = AutoConfig.from_pretrained(tmp_path)
    assert loading._quantization(config, torch.device("cuda")) == {}
