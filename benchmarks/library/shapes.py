"""Checkpoints with the shape of a gpt-oss and random MXFP4 weights, and what their steps cost."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import GptOssConfig

from demo.package import CONFIG
from demo.tokenizer import write_tokenizer

BLOCK = 32
"""Values that share an exponent in MXFP4."""
MXFP4_BYTES = 0.5 + 1 / BLOCK
BF16_BYTES = 2.0
EXPONENT = 120
"""Of the blocks: 127 stands for 1, so that weights are about 0.02."""
_WRITERS = 8
"""Threads that draw and write a checkpoint; each holds a layer, or an embedding in float32."""

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes of a gpt-oss. Half of the layers attend to the last `window` tokens only."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    active: int
    vocab: int = CONFIG["vocab_size"]
    window: int = 128

    @property
    def config(self) -> dict[str, Any]:
        """The arguments of `GptOssConfig`."""
        return {
            **CONFIG,
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "num_local_experts": self.experts,
            "num_experts_per_tok": self.active,
            "sliding_window": self.window,
            "tie_word_embeddings": False,
        }

    @property
    def attention(self) -> int:
        """The weights of a layer's attention and router."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.hidden * (2 * queries + 2 * keys + self.experts)

    @property
    def expert(self) -> int:
        """The weights of one expert of one layer."""
        return 3 * self.hidden * self.intermediate

    @property
    def head(self) -> int:
        """The weights of the output layer."""
        return self.vocab * self.hidden

    def experts_read(self, streams: int) -> float:
        """The expected number of a layer's experts that one step of `streams` tokens uses.

        It assumes that the router picks experts evenly, as that of random weights does.
        """
        return self.experts * (1 - (1 - self.active / self.experts) ** streams)

    def decode_bytes(self, streams: int, context: int, *, packed: bool) -> float:
        """The bytes that a step of `streams` tokens reads: each weight once, and the KV cache.

        context: tokens of each stream. packed: whether the experts are MXFP4, otherwise bfloat16.
        """
        width = MXFP4_BYTES if packed else BF16_BYTES
        experts = self.experts_read(streams) * self.expert * width
        weights = self.layers * (self.attention * BF16_BYTES + experts) + self.head * BF16_BYTES
        cached = (context + min(context, self.window)) / 2 * self.layers
        return weights + streams * cached * 2 * self.kv_heads * self.head_dim * BF16_BYTES

    def prefill_operations(self, tokens: int) -> float:
        """The floating-point operations for a prompt; two for each multiplication with a weight."""
        weights = self.layers * (self.attention + self.active * self.expert)
        full, sliding = tokens * tokens / 2, tokens * min(tokens, self.window)
        scores = (full + sliding) / 2 * self.layers * 4 * self.heads * self.head_dim
        return 2.0 * weights * tokens + scores + 2.0 * self.head


LARGE = Shape(2880, 2880, 24, 64, 8, 64, 32, 4)
"""gpt-oss-20b: https://huggingface.co/openai/gpt-oss-20b/blob/main/config.json"""
TINY = Shape(64, 64, 2, 4, 2, 32, 4, 2)


def read_shape(folder: Path) -> Shape:
    """The shape of a checkpoint."""
    config = json.loads((folder / "config.json").read_text())
    return Shape(
        config["hidden_size"],
        config["intermediate_size"],
        config["num_hidden_layers"],
        config["num_attention_heads"],
        config["num_key_value_heads"],
        config["head_dim"],
        config["num_local_experts"],
        config["num_experts_per_tok"],
        config["vocab_size"],
        config["sliding_window"],
    )


def stores_mxfp4(folder: Path) -> bool:
    """Whether a checkpoint has its experts as MXFP4."""
    stored = json.loads((folder / "config.json").read_text()).get("quantization_config")
    return stored is not None and stored.get("quant_method") == "mxfp4"


def ensure(shape: Shape, folder: Path) -> Path:
    """Write a checkpoint with random weights, unless the folder exists. It appears as a whole."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        _write(shape, draft)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _write(shape: Shape, folder: Path) -> None:
    write_tokenizer(folder, lambda stage, fraction: None)
    config = GptOssConfig(**shape.config).to_dict()
    config |= {"architectures": ["GptOssForCausalLM"], "torch_dtype": "bfloat16"}
    kept = ["self_attn", "mlp.router", "embed_tokens", "lm_head"]
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    (folder / "config.json").write_text(json.dumps(config))
    files = dict(_files(shape))

    def write(seed: int, file: str) -> dict[str, int]:
        tensors = files[file](Source(seed))
        save_file(tensors, folder / file, metadata={"format": "pt"})
        return {name: tensor.nbytes for name, tensor in tensors.items()}

    places: dict[str, str] = {}
    total = 0
    with ThreadPoolExecutor(min(_WRITERS, os.cpu_count() or 1)) as pool:
        for file, sizes in zip(files, pool.map(write, range(len(files)), files), strict=True):
            places |= dict.fromkeys(sizes, file)
            total += sum(sizes.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


class Source:
    """Random weights, the same for each seed. A thread draws without the lock of Python."""

    def __init__(self, seed: int) -> None:
        self._normal = torch.Generator().manual_seed(seed)
        self._bits = np.random.Generator(np.random.SFC64(seed))

    def weights(self, *size: int) -> torch.Tensor:
        return torch.randn(size, generator=self._normal).mul_(0.02).to(torch.bfloat16)

    def octets(self, *size: int) -> torch.Tensor:
        """Any bytes; their number is a multiple of eight."""
        # Drawn one by one, bytes would take several times as long.
        words = self._bits.integers(2**64, size=math.prod(size) // 8, dtype=np.uint64)
        return torch.from_numpy(words.view(np.uint8)).view(size)


def _files(shape: Shape) -> Iterator[tuple[str, Callable[[Source], Tensors]]]:
    """What draws the tensors of each file: one for each layer, and two for the rest."""
    hidden = shape.hidden
    yield (
        "model-embedding.safetensors",
        lambda source: {"model.embed_tokens.weight": source.weights(shape.vocab, hidden)},
    )
    yield (
        "model-output.safetensors",
        lambda source: {
            "model.norm.weight": _ones(hidden),
            "lm_head.weight": source.weights(shape.vocab, hidden),
        },
    )
    for layer in range(shape.layers):
        yield f"model-layer-{layer:02}.safetensors", partial(_layer, shape, layer)


def _layer(shape: Shape, layer: int, source: Source) -> Tensors:
    hidden = shape.hidden
    tensors = {
        "input_layernorm.weight": _ones(hidden),
        "post_attention_layernorm.weight": _ones(hidden),
        "self_attn.sinks": source.weights(shape.heads),
        "mlp.router.weight": source.weights(shape.experts, hidden),
        "mlp.router.bias": source.weights(shape.experts),
        **_experts("gate_up_proj", shape.experts, 2 * shape.intermediate, hidden, source),
        **_experts("down_proj", shape.experts, hidden, shape.intermediate, source),
    }
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes = {"q_proj": (queries, hidden), "k_proj": (keys, hidden), "v_proj": (keys, hidden)}
    sizes["o_proj"] = (hidden, queries)
    for name, size in sizes.items():
        tensors[f"self_attn.{name}.weight"] = source.weights(*size)
        tensors[f"self_attn.{name}.bias"] = source.weights(size[0])
    return {f"model.layers.{layer}.{name}": tensor for name, tensor in tensors.items()}


def _experts(name: str, experts: int, rows: int, columns: int, source: Source) -> Tensors:
    """A projection of all experts: two values of four bits in each byte, and the exponents."""
    blocks = (experts, rows, columns // BLOCK)
    return {
        f"mlp.experts.{name}_blocks": source.octets(*blocks, BLOCK // 2),
        f"mlp.experts.{name}_scales": torch.full(blocks, EXPONENT, dtype=torch.uint8),
        f"mlp.experts.{name}_bias": source.weights(experts, rows),
    }


def _ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)
