"""Loading a checkpoint with the files and formats of gpt-oss-20b: dequantised, and packed."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.integrations import hub_kernels
from transformers.quantizers import quantizer_mxfp4
from transformers.utils.quantization_config import Mxfp4Config

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.errors import BackendFailed
from adapters.local.model import kernels, precision, weights
from adapters.local.model.loading import load
from adapters.local.options import Options
from harmony.tokenizer import encode
from harmony.vocab import STOP_TOKENS
from tests.adapters import gpt_oss_layout as layouts
from tests.adapters.gpt_oss_layout import Layout
from tests.adapters.local.conftest import started
from tests.adapters.mxfp4_kernels import HUB, Packed
from tests.adapters.sampling import sample

CPU = Options(device="cpu")
PROMPT = tuple(encode("The weather in Oslo is"))


def silent(stage: str, fraction: float) -> None:
    pass


def test_the_files_are_those_of_the_repository(layout: Layout) -> None:
    found = {
        str(file.relative_to(layout.folder)) for file in layout.folder.rglob("*") if file.is_file()
    }
    assert found == set(layouts.FILES)


def test_the_index_names_the_shard_of_each_weight(layout: Layout) -> None:
    index = json.loads((layout.folder / "model.safetensors.index.json").read_text())
    held: dict[str, str] = {}
    for shard in layouts.SHARDS:
        with safe_open(layout.folder / shard, "pt") as file:
            held |= dict.fromkeys(file.keys(), shard)
    assert index["weight_map"] == held
    assert index["metadata"]["total_size"] == layout.size
    # gpt-oss-20b has as many.
    assert len(held) == 459


def test_experts_are_blocks_and_scales(layout: Layout) -> None:
    """Of gpt-oss-20b: [32, 5760, 90, 16] and [32, 5760, 90]; the width is 2,880 there."""
    prefix = "model.layers.23.mlp.experts.gate_up_proj"
    blocks, scales = (layout.tensors[f"{prefix}_{kind}"] for kind in ("blocks", "scales"))
    assert (blocks.dtype, blocks.shape) == (torch.uint8, (32, 128, 2, 16))
    assert (scales.dtype, scales.shape) == (torch.uint8, (32, 128, 2))
    assert layout.tensors[f"{prefix}_bias"].dtype == torch.bfloat16


def test_the_size_of_packed_weights_is_known_before_they_are_read(layout: Layout) -> None:
    """By the same function the weights of gpt-oss-20b take 13.8 GB."""
    config = AutoConfig.from_pretrained(layout.folder)
    assert (
        weights._size(weights._meta_model(config), torch.bfloat16.itemsize, packed=True)
        == layout.size
    )


@pytest.fixture(scope="module", params=[True, False], ids=["bfloat16", "float32"])
def dequantised(layout: Layout, request: pytest.FixtureRequest) -> Any:
    """As a CPU loads it that multiplies bfloat16 numbers, and one that does not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "multiplies_bfloat16", lambda: request.param)
        return load(str(layout.folder), CPU, silent)


def test_every_expert_is_dequantised_exactly(layout: Layout, dequantised: Any) -> None:
    loaded = dict(dequantised.named_parameters())
    names = [name.removesuffix("_blocks") for name in layout.tensors if name.endswith("_blocks")]
    assert len(names) == 2 * layouts.LAYERS
    for name in names:
        assert torch.equal(loaded[name].float(), layout.expert_weights(name))


def test_every_other_weight_is_loaded_as_it_is(layout: Layout, dequantised: Any) -> None:
    loaded = dict(dequantised.named_parameters())
    packed = ("_blocks", "_scales")
    others = {name for name in layout.tensors if not name.endswith(packed)}
    others.remove("lm_head.weight")  # a CPU stores it in another order
    loaded.pop("lm_head.weight", None)
    # The projections are packed too, where the CPU can, and the norms are scaled.
    replaced = ("q_proj.", "k_proj.", "v_proj.", "o_proj.", "norm.")
    missing = others - loaded.keys() - {"model.embed_tokens.weight"}
    assert all(any(part in name for part in replaced) for name in missing)
    others -= missing
    name = "model.embed_tokens.weight"
    loaded[name] = dequantised.get_input_embeddings().weight
    assert len(others & loaded.keys()) + 2 * layouts.LAYERS == len(loaded)
    assert all(torch.equal(loaded[name].float(), layout.tensors[name].float()) for name in others)


def test_the_stop_tokens_are_harmonys(layout: Layout) -> None:
    generation = GenerationConfig.from_pretrained(layout.folder)
    assert set(STOP_TOKENS) <= set(generation.eos_token_id)


async def test_the_backend_samples_what_transformers_generates(
    layout: Layout, local_config: BackendConfig
) -> None:
    reference: Any = AutoModelForCausalLM.from_pretrained(
        layout.folder,
        dtype=torch.float32,
        attn_implementation="eager",
        quantization_config=Mxfp4Config(dequantize=True),
    )
    ids = torch.tensor([PROMPT])
    expected = reference.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=-1)
    config = dataclasses.replace(local_config, model=str(layout.folder))
    asked = GenerationRequest("r", PROMPT, 8, frozenset(), SamplingParams(temperature=0))
    async with started(config) as backend:
        assert await sample(backend, asked) == expected[0, len(PROMPT) :].tolist()


# Packed weights, with kernels that compute on a CPU


class SwappedTorch:
    """What transformers' quantizer asks torch about the device: a GPU."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.accelerator = SimpleNamespace(current_accelerator=lambda: torch.device("cuda"))
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            get_device_capability=lambda: capability,
            empty_cache=lambda: None,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU with all packages, as transformers' quantizer and the loading see it."""
    monkeypatch.setattr(quantizer_mxfp4, "torch", SwappedTorch((8, 0)))
    # A CUDA build of torch names its accelerator without one, too.
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: None)
    for name in ("is_triton_available", "is_kernels_available"):
        monkeypatch.setattr(quantizer_mxfp4, name, lambda *_: True)
    monkeypatch.setattr(weights, "why_no_mxfp4", lambda device: None)
    monkeypatch.setattr(kernels, "provide", lambda repository: None)
    for module in (weights, hub_kernels):
        monkeypatch.setattr(module, "get_kernel", lambda repository, version: HUB)


@pytest.mark.usefixtures("gpu")
def test_packed_experts_stay_as_they_are_in_the_files(layout: Layout) -> None:
    model = load(str(layout.folder), CPU, silent)
    for layer in (0, layouts.LAYERS - 1):
        experts = model.model.layers[layer].mlp.experts
        for name in ("gate_up_proj", "down_proj"):
            key = f"model.layers.{layer}.mlp.experts.{name}"
            blocks = getattr(experts, name)
            scales = getattr(experts, f"{name}_precision_config").weight_scale
            assert isinstance(blocks, Packed)
            packed = layout.tensors[f"{key}_blocks"]
            assert torch.equal(blocks.data.transpose(1, 2), packed.flatten(2))
            assert torch.equal(scales.data.transpose(1, 2), layout.tensors[f"{key}_scales"])


@pytest.mark.usefixtures("gpu")
def test_packed_and_dequantised_experts_compute_the_same(layout: Layout, dequantised: Any) -> None:
    model = load(str(layout.folder), Options(device="cpu", attention="eager"), silent)
    experts = model.model.layers[0].mlp
    states = torch.randn((1, 5, layouts.WIDTH), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found, _ = experts(states.to(torch.bfloat16))
        expected, _ = dequantised.model.layers[0].mlp(states.to(dequantised.dtype))
    error = float((found - expected).abs().max())
    assert error < 0.02 * float(expected.abs().max())


@pytest.mark.usefixtures("gpu")
def test_what_transformers_dequantises_after_all_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with another version of a package than the one that the plan was made for."""
    monkeypatch.setattr(quantizer_mxfp4, "is_kernels_available", lambda: False)
    with pytest.raises(BackendFailed, match="transformers has dequantised the experts"):
        load(str(layout.folder), CPU, silent)
