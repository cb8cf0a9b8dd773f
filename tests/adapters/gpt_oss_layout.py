"""A random checkpoint with the files, names and formats of openai/gpt-oss-20b, of small width.

As there: 24 layers, 32 experts of which 4 are used, heads of 64, the whole vocabulary, experts in
MXFP4 (blocks of 32 values, `_blocks` and `_scales`), three shards with an index, and the same
weights for other programs in `original/` and `metal/`. Those two hold no weights here, but bytes
that no program can load: what reads them fails.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

LAYERS, EXPERTS, WIDTH, HEADS, KEY_HEADS, HEAD_WIDTH = 24, 32, 64, 8, 1, 64
VOCABULARY = 201_088
SHARDS = tuple(f"model-{shard:05}-of-00002.safetensors" for shard in range(3))
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
READ_BY_ENGINES = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    *SHARDS,
    "model.safetensors.index.json",
    "special_tokens_map.json",
    *TOKENIZER_FILES,
)
FOR_OTHER_PROGRAMS = (
    "metal/model.bin",
    "original/config.json",
    "original/dtypes.json",
    "original/model.safetensors",
)
FOR_PEOPLE = ("LICENSE", "README.md", "USAGE_POLICY")
FILES = (*READ_BY_ENGINES, *FOR_OTHER_PROGRAMS, *FOR_PEOPLE)

CONFIG: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "eos_token_id": 200_002,
    "experts_per_token": 4,
    "head_dim": HEAD_WIDTH,
    "hidden_act": "silu",
    "hidden_size": WIDTH,
    "initial_context_length": 4096,
    "initializer_range": 0.02,
    "intermediate_size": WIDTH,
    "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
    "max_position_embeddings": 131_072,
    "model_type": "gpt_oss",
    "num_attention_heads": HEADS,
    "num_experts_per_tok": 4,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KEY_HEADS,
    "num_local_experts": EXPERTS,
    "output_router_logits": False,
    "pad_token_id": 199_999,
    "quantization_config": {
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
        "quant_method": "mxfp4",
    },
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150_000,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "transformers_version": "4.55.0.dev0",
    "use_cache": True,
    "vocab_size": VOCABULARY,
}
_SMALL_FILES: dict[str, Any] = {
    "config.json": CONFIG,
    "generation_config.json": {
        "bos_token_id": 199_998,
        "do_sample": True,
        "eos_token_id": [200_002, 199_999, 200_012],
        "pad_token_id": 199_999,
        "transformers_version": "4.55.0.dev0",
    },
    "special_tokens_map.json": {
        "bos_token": "<|startoftext|>",
        "eos_token": "<|return|>",
        "pad_token": "<|endoftext|>",
    },
}
# The 16 values that four bits of an MXFP4 block name (OCP microscaling formats, section 5.3.3).
_MAGNITUDES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
FP4_VALUES = torch.tensor([*_MAGNITUDES, *[-value for value in _MAGNITUDES]])


@dataclass(frozen=True, slots=True)
class Layout:
    """A written checkpoint. tensors: its weights by name, as its files hold them."""

    folder: Path
    tensors: dict[str, Tensor]

    @property
    def size(self) -> int:
        """The bytes of the weights."""
        return sum(one.numel() * one.element_size() for one in self.tensors.values())

    def expert_weights(self, name: str) -> Tensor:
        """The values of packed experts [experts, in, out]. name: without `_blocks`."""
        blocks, scales = self.tensors[f"{name}_blocks"], self.tensors[f"{name}_scales"]
        return unpack_mxfp4(blocks, scales).transpose(1, 2)


def unpack_mxfp4(blocks: Tensor, scales: Tensor) -> Tensor:
    """The values [., out, in] of blocks [., out, in / 32, 16] and scales [., out, in / 32].

    A byte holds two values, the first in its low half. A scale is an exponent of two plus 127.
    """
    codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2)
    values = FP4_VALUES[codes.long()] * 2.0 ** (scales.float().unsqueeze(-1) - 127)
    return values.flatten(-2)


def write_layout(folder: Path, tokenizer: Path) -> Layout:
    """Write the checkpoint. tokenizer: a folder with TOKENIZER_FILES, which are copied."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = draw_tensors()
    _write_shards(folder, tensors)
    for name, content in _SMALL_FILES.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text("{{ raise_exception('rendered by the server') }}")
    for name in TOKENIZER_FILES:
        shutil.copyfile(tokenizer / name, folder / name)
    for name in FOR_OTHER_PROGRAMS + FOR_PEOPLE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\xff" * 64)
    return Layout(folder, tensors)


def draw_tensors() -> dict[str, Tensor]:
    """The weights, in the order of the layers."""
    source = torch.Generator().manual_seed(0)

    def noise(*shape: int, scale: float = 0.1) -> Tensor:
        return (torch.randn(shape, generator=source) * scale).to(torch.bfloat16)

    def byte(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, dtype=torch.uint8, generator=source)

    tensors = {"model.embed_tokens.weight": noise(VOCABULARY, WIDTH, scale=1.0)}
    for layer in range(LAYERS):
        own: dict[str, Tensor] = {}
        for name, rows in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
            own[f"self_attn.{name}_proj.weight"] = noise(rows * HEAD_WIDTH, WIDTH)
            own[f"self_attn.{name}_proj.bias"] = noise(rows * HEAD_WIDTH)
        own["self_attn.o_proj.weight"] = noise(WIDTH, HEADS * HEAD_WIDTH)
        own["self_attn.o_proj.bias"] = noise(WIDTH)
        own["self_attn.sinks"] = noise(HEADS, scale=1.0)
        own["mlp.router.weight"], own["mlp.router.bias"] = noise(EXPERTS, WIDTH), noise(EXPERTS)
        for name, rows in (("gate_up", 2 * WIDTH), ("down", WIDTH)):
            key = f"mlp.experts.{name}_proj"
            own[f"{key}_blocks"] = byte(0, 256, EXPERTS, rows, WIDTH // 32, 16)
            own[f"{key}_scales"] = byte(119, 123, EXPERTS, rows, WIDTH // 32)
            own[f"{key}_bias"] = noise(EXPERTS, rows)
        for name in ("input_layernorm", "post_attention_layernorm"):
            own[f"{name}.weight"] = 1 + noise(WIDTH)
        tensors |= {f"model.layers.{layer}.{name}": one for name, one in own.items()}
    tensors["model.norm.weight"] = 1 + noise(WIDTH)
    tensors["lm_head.weight"] = noise(VOCABULARY, WIDTH)
    return tensors


def _write_shards(folder: Path, tensors: dict[str, Tensor]) -> None:
    names = list(tensors)
    share = -(-len(names) // len(SHARDS))
    weight_map: dict[str, str] = {}
    for place, shard in enumerate(SHARDS):
        own = names[place * share : (place + 1) * share]
        weight_map |= dict.fromkeys(own, shard)
        save_file({name: tensors[name] for name in own}, folder / shard, {"format": "pt"})
    total = sum(one.numel() * one.element_size() for one in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
