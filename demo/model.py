"""The demo model's mathematics for training: gpt-oss, in a form that two CPU cores train quickly.

It computes what `transformers.GptOssForCausalLM` computes (a test holds them equal), but
differently: every expert is evaluated and weighted (four small experts make one matrix product),
attention goes block by block with a hand-written gradient, and the element-wise parts are compiled.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.attention import Kernels, Packed, attention, packed_attention

_ONEDNN = torch.backends.mkldnn.is_available()
_SLOW_BFLOAT16 = _ONEDNN and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
PRODUCTS = torch.float32 if _SLOW_BFLOAT16 else torch.bfloat16
"""The type in which training and evaluation multiply matrices: the faster one on this CPU."""


def products(device: torch.device) -> torch.dtype:
    """The type in which matrices are multiplied on `device`."""
    return PRODUCTS if device.type == "cpu" else torch.bfloat16


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a gpt-oss model; the defaults are the demo checkpoint's."""

    hidden: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    experts: int = 4
    top_k: int = 2
    intermediate: int = 384
    window: int = 128
    rope_theta: float = 150_000.0
    yarn: dict[str, Any] = field(
        default_factory=lambda: {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        }
    )
    eps: float = 1e-5
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0

    @classmethod
    def of(cls, weights: dict[str, Tensor]) -> "Shape":
        """The shape of the model that has these weights, named as in a training state."""
        first, usual = "body.layers.0.", cls()
        return replace(
            usual,
            layers=sum(name.endswith("input_norm") for name in weights),
            heads=len(weights[first + "sinks"]),
            kv_heads=len(weights[first + "k"]) // usual.head_dim,
            hidden=len(weights["body.norm"]),
            intermediate=weights[first + "gate"].shape[2],
        )


def rope_tables(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """YaRN's cosines and sines, each (length, head_dim / 2), with the attention factor applied."""
    half = shape.head_dim // 2
    exponent = torch.arange(half, dtype=torch.float64) / half
    plain = shape.rope_theta**-exponent
    span = shape.yarn["original_max_position_embeddings"]

    def dimension(rotations: float) -> float:
        ratio = span / (rotations * 2 * math.pi)
        return half * math.log(ratio) / math.log(shape.rope_theta)

    low = max(dimension(shape.yarn["beta_fast"]), 0)
    high = min(dimension(shape.yarn["beta_slow"]), shape.head_dim - 1)
    ramp = ((torch.arange(half, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    frequency = plain / shape.yarn["factor"] * ramp + plain * (1 - ramp)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    gain = 0.1 * math.log(shape.yarn["factor"]) + 1
    return (angle.cos() * gain).float(), (angle.sin() * gain).float()


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """gpt-oss's norm, computed in float32 and returned in x's type."""
    wide = x.float()
    return (weight * wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply RoPE to x (n, heads, d) with tables (n, 1, d / 2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Layer(nn.Module):
    """One decoder layer; the experts' gate and up halves are separate (export interleaves them)."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        self.shape = shape
        self.window = shape.window if index % 2 == 0 else None
        h, d, e, i = shape.hidden, shape.head_dim, shape.experts, shape.intermediate
        wide, narrow = shape.heads * d, shape.kv_heads * d
        self.input_norm = nn.Parameter(torch.ones(h))
        self.q = nn.Parameter(torch.randn(wide, h) * h**-0.5)
        self.k = nn.Parameter(torch.randn(narrow, h) * h**-0.5)
        self.v = nn.Parameter(torch.randn(narrow, h) * h**-0.5)
        self.o = nn.Parameter(torch.randn(h, wide) * wide**-0.5 * 0.3)
        self.q_bias = nn.Parameter(torch.zeros(wide))
        self.k_bias = nn.Parameter(torch.zeros(narrow))
        self.v_bias = nn.Parameter(torch.zeros(narrow))
        self.o_bias = nn.Parameter(torch.zeros(h))
        self.sinks = nn.Parameter(torch.zeros(shape.heads))
        self.post_norm = nn.Parameter(torch.ones(h))
        self.router = nn.Parameter(torch.randn(e, h) * h**-0.5)
        self.router_bias = nn.Parameter(torch.zeros(e))
        self.gate = nn.Parameter(torch.randn(e, h, i) * h**-0.5)
        self.up = nn.Parameter(torch.randn(e, h, i) * h**-0.5)
        self.gate_bias = nn.Parameter(torch.zeros(e, i))
        self.up_bias = nn.Parameter(torch.zeros(e, i))
        self.down = nn.Parameter(torch.randn(e, i, h) * i**-0.5 * 0.3)
        self.down_bias = nn.Parameter(torch.zeros(e, h))

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (n, hidden) -> rotated q (n, heads, d), rotated k and v (n, kv, d)."""
        shape, kind = self.shape, x.dtype
        normed = rms_norm(x, self.input_norm, shape.eps)
        weight = torch.cat((self.q, self.k, self.v)).to(kind)
        bias = torch.cat((self.q_bias, self.k_bias, self.v_bias)).to(kind)
        q, k, v = F.linear(normed, weight, bias).split(
            (self.q.shape[0], self.k.shape[0], self.v.shape[0]), dim=-1
        )
        d = shape.head_dim
        q, k = q.view(-1, shape.heads, d), k.view(-1, shape.kv_heads, d)
        return rotate(q, cos, sin), rotate(k, cos, sin), v.view(-1, shape.kv_heads, d)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Output projection, residual, experts, residual; x (n, hidden), attended (n, heads*d)."""
        kind = x.dtype
        x = x + F.linear(attended, self.o.to(kind), self.o_bias.to(kind))
        return x + self.experts(rms_norm(x, self.post_norm, self.shape.eps))

    def experts(self, x: Tensor) -> Tensor:
        """The mixture on x (n, hidden); unchosen experts get weight zero."""
        shape, kind = self.shape, x.dtype
        e, i, h = shape.experts, shape.intermediate, shape.hidden
        logits = F.linear(x.float(), self.router.float(), self.router_bias.float())
        chosen, index = logits.topk(shape.top_k, dim=-1)
        weights = torch.zeros_like(logits).scatter(1, index, chosen.softmax(-1)).to(kind)
        gate = x @ self.gate.permute(1, 0, 2).reshape(h, e * i).to(kind)
        up = x @ self.up.permute(1, 0, 2).reshape(h, e * i).to(kind)
        gate = (gate + self.gate_bias.view(-1).to(kind)).clamp(max=shape.swiglu_limit)
        up = (up + self.up_bias.view(-1).to(kind)).clamp(-shape.swiglu_limit, shape.swiglu_limit)
        active = (up + 1) * (gate * torch.sigmoid(gate * shape.swiglu_alpha))
        active = (active.view(-1, e, i) * weights[:, :, None]).view(-1, e * i)
        return active @ self.down.view(e * i, h).to(kind) + weights @ self.down_bias.to(kind)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, batch: int, packed: Packed | None = None
    ) -> Tensor:
        """x (batch * l, hidden) -> the same, one layer on."""
        q, k, v = self.project(x, cos, sin)
        scale = self.shape.head_dim**-0.5
        if packed is None:
            q, k, v = (part.view(batch, -1, *part.shape[1:]) for part in (q, k, v))
            attended = attention(q, k, v, self.sinks, self.window, scale)
        else:
            attended = packed_attention(q, k, v, self.sinks, packed, self.window, scale)
        return self.finish(x, attended.reshape(x.shape[0], -1))


class Body(nn.Module):
    """The layers and the final norm: embedded rows in, normed hidden states out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList([Layer(shape, i) for i in range(shape.layers)])
        self.norm = nn.Parameter(torch.ones(shape.hidden))
        self._rope: dict[tuple[int, torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def typed_layers(self) -> list[Layer]:
        """The layers, for type checkers."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def forward(self, rows: Tensor, packed: Packed | None = None) -> Tensor:
        """rows (batch, l, hidden) -> (batch, l, hidden), normed, in rows' type.

        packed: where the sequences begin, if the rows are one row of several sequences.
        """
        batch, length, hidden = rows.shape
        cos, sin = self._tables(batch, length, packed, rows)
        x = rows.reshape(batch * length, hidden)
        for layer in self.layers:
            x = layer(x, cos, sin, batch, packed)
        return rms_norm(x, self.norm, self.shape.eps).view(batch, length, hidden)

    def _tables(
        self, batch: int, length: int, packed: Packed | None, like: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Cosines and sines of every position, (batch * l, 1, head_dim / 2), typed as `like`."""
        longest = length if packed is None else packed.longest
        key = longest, like.device, like.dtype
        if key not in self._rope:
            cos, sin = rope_tables(self.shape, longest)
            self._rope[key] = cos.to(like), sin.to(like)
        cos, sin = self._rope[key]
        if packed is None:
            return cos.repeat(batch, 1)[:, None], sin.repeat(batch, 1)[:, None]
        places = packed.places(length)
        return cos[places][:, None], sin[places][:, None]


def compile_kernels(body: Body) -> None:
    """Compile the element-wise parts in place, which takes about a minute.

    Needs a C++ compiler, and on CUDA Triton.
    """
    Kernels.compile()
    for layer in body.typed_layers():
        layer.project = torch.compile(layer.project)  # type: ignore[method-assign]
        layer.finish = torch.compile(layer.finish)  # type: ignore[method-assign]
