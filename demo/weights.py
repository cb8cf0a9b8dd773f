"""The trained model as the small file in `data/`, and its expansion to a checkpoint's tensors.

The package contains the layers and the learned parts of the embedding, as integers from -15 to 15
with a scale for each 64. Training rounds them in the same way, so that little is lost. The 201,088
rows of both vocabulary matrices are computed from these.
"""

import lzma
from collections.abc import Iterator
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from demo.embedding import OUTPUT_AT, Rows
from demo.model import Body, Layer, Shape
from demo.package import CONFIG
from harmony import vocab

SHARPNESS = 2.0
"""The factor of the logits. Clients sample at temperature 1 by default, at which so small a model
makes many mistakes. The order of the tokens does not change."""

_SCALE = "#scale"
_SMALL = 2048
_GROUP, _MOST = 64, 15

_AT_ONCE = 2048
"""How many rows of a vocabulary matrix are computed at once: they fit into a processor's cache."""


def is_rounded(values: Tensor) -> bool:
    """Whether the package has these values as integers: whether they are a matrix, not a bias."""
    return values.numel() >= _SMALL and values.dim() > 1


def to_integers(values: Tensor) -> tuple[Tensor, Tensor]:
    """Values of any shape as integers (int8, one row for each 64 values) and the scales (float16,
    a column) to multiply them by. Raises RuntimeError for a number of values that is no multiple
    of 64."""
    groups = values.reshape(-1, _GROUP)
    scales = (groups.abs().amax(-1, keepdim=True).clamp(min=1e-5) / _MOST).half()
    return (groups / scales).round().clamp(-_MOST, _MOST).to(torch.int8), scales


def pack(state: dict[str, Tensor], known: Tensor) -> bytes:
    """A training state's tensors and the ids of the tokens with learned rows, as a file."""
    tensors: dict[str, Tensor] = {"known": known.int()}
    for name, tensor in state.items():
        values = tensor.detach().float().contiguous()
        if not is_rounded(values):
            tensors[name] = values
            continue
        integers, tensors[name + _SCALE] = to_integers(values)
        tensors[name] = integers.view_as(values)
    return lzma.compress(save(tensors), preset=9 | lzma.PRESET_EXTREME)


def unpack(data: bytes) -> tuple[dict[str, Tensor], Tensor]:
    """The arguments of `pack`, except for rounding."""
    tensors = load(lzma.decompress(data))
    known = tensors.pop("known").long()
    state = {
        name: from_integers(tensor, tensors[name + _SCALE])
        if tensor.dtype is torch.int8
        else tensor
        for name, tensor in tensors.items()
        if not name.endswith(_SCALE)
    }
    return state, known


def from_integers(integers: Tensor, scales: Tensor) -> Tensor:
    """The values (float32, in the integers' shape) that `to_integers` took, up to rounding.

    Each of the scales is for as many integers as every other.
    """
    groups = integers.float().view(scales.numel(), -1)
    return (groups * scales.float().view(-1, 1)).view_as(integers)


def build(state: dict[str, Tensor], known: Tensor) -> tuple[Body, Tensor, Tensor]:
    """The body and both vocabulary matrices (vocabulary, hidden), in bfloat16."""
    shape = Shape.of(state)
    body = Body(shape)
    body.load_state_dict(_under("body.", state), assign=True)
    ids = torch.arange(vocab.VOCAB_SIZE)
    matrices = []
    for part, offset in (("input.", 0), ("output.", OUTPUT_AT)):
        rows = Rows(shape.hidden, known, offset, 1.0, spelt=part == "input.")
        rows.load_state_dict(_under(part, state))
        with torch.no_grad():
            matrices.append(torch.cat([rows(chunk).bfloat16() for chunk in ids.split(_AT_ONCE)]))
    return body.bfloat16(), matrices[0], matrices[1]


def _under(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def checkpoint(body: Body, embeddings: Tensor, outputs: Tensor) -> dict[str, Tensor]:
    """The tensors under the names that `GptOssForCausalLM` loads."""
    tensors = {
        "model.embed_tokens.weight": embeddings,
        "lm_head.weight": outputs * SHARPNESS,
        "model.norm.weight": body.norm,
    }
    for number, layer in enumerate(body.typed_layers()):
        for name, tensor in _layer_tensors(layer):
            tensors[f"model.layers.{number}.{name}"] = tensor
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def _layer_tensors(layer: Layer) -> Iterator[tuple[str, Tensor]]:
    yield "input_layernorm.weight", layer.input_norm
    yield "post_attention_layernorm.weight", layer.post_norm
    for letter in "qkvo":
        yield f"self_attn.{letter}_proj.weight", getattr(layer, letter)
        yield f"self_attn.{letter}_proj.bias", getattr(layer, f"{letter}_bias")
    yield "self_attn.sinks", layer.sinks
    yield "mlp.router.weight", layer.router
    yield "mlp.router.bias", layer.router_bias
    yield "mlp.experts.gate_up_proj", _interleaved(layer.gate, layer.up)
    yield "mlp.experts.gate_up_proj_bias", _interleaved(layer.gate_bias, layer.up_bias)
    yield "mlp.experts.down_proj", layer.down
    yield "mlp.experts.down_proj_bias", layer.down_bias


def _interleaved(gate: Tensor, up: Tensor) -> Tensor:
    return torch.stack((gate, up), dim=-1).flatten(-2)


def config(shape: Shape) -> dict[str, Any]:
    """The arguments of `GptOssConfig` that make a model of `shape`."""
    return CONFIG | {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "num_local_experts": shape.experts,
        "num_experts_per_tok": shape.top_k,
        "sliding_window": shape.window,
    }
