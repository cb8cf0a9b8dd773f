"""The kernels for packed MXFP4 weights, as far as transformers uses them, for a CPU.

The same names and arguments as kernels-community/gpt-oss-triton-kernels; the arithmetic is that of
the definition, in float32.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.adapters.gpt_oss_layout import unpack_mxfp4


class Packed:
    """A tensor with a shape that is set to that of the values."""

    def __init__(self, data: Tensor) -> None:
        self.data = data
        self.shape = data.shape


def _multiply(
    states: Tensor,
    weights: Packed,
    bias: Tensor,
    routing: Any,
    gather_indx: Tensor | None = None,
    scatter_indx: Tensor | None = None,
    precision_config: Any = None,
    gammas: Tensor | None = None,
    fused_activation: Any = None,
) -> Tensor:
    """Multiply each row by the weights of its expert; gather the rows before or add them after."""
    rows = states if gather_indx is None else states[gather_indx]
    blocks, scales = (
        one.data.transpose(-2, -1) for one in (weights, precision_config.weight_scale)
    )
    experts, outputs, _ = blocks.shape
    values = unpack_mxfp4(blocks.reshape(experts, outputs, -1, 16), scales)[routing.experts]
    out = torch.einsum("ri,roi->ro", rows.float(), values) + bias[routing.experts]
    if fused_activation is not None:
        alpha, limit = fused_activation.arguments
        gate, up = out[:, ::2].clamp(max=limit), out[:, 1::2].clamp(-limit, limit)
        out = gate * torch.sigmoid(alpha * gate) * (up + 1)
    if gammas is not None:
        out = out * gammas.float().unsqueeze(1)
    if scatter_indx is not None:
        tokens = int(scatter_indx.max()) + 1
        out = torch.zeros(tokens, out.shape[1]).index_add_(0, scatter_indx, out)
    return out.to(states.dtype)


def _route(logits: Tensor, count: int) -> tuple[Any, Tensor, Tensor]:
    scores, experts = logits.topk(count)
    tokens = torch.arange(len(logits)).repeat_interleave(count)
    routing = SimpleNamespace(experts=experts.flatten(), gate_scal=scores.softmax(-1).flatten())
    return routing, tokens, tokens


def _precision(weight_scale: Packed, flex_ctx: Any) -> Any:
    return SimpleNamespace(weight_scale=weight_scale, flex_ctx=flex_ctx)


def _activation(specs: Any, arguments: tuple[float, float], reduction: int) -> Any:
    return SimpleNamespace(specs=specs, arguments=arguments, reduction=reduction)


HUB = SimpleNamespace(
    tensor=SimpleNamespace(
        FP4="fp4",
        wrap_torch_tensor=lambda data, dtype=None: Packed(data),
        convert_layout=lambda tensor, layout, **options: tensor,
    ),
    tensor_details=SimpleNamespace(
        layout=SimpleNamespace(
            StridedLayout="strided",
            make_default_matmul_mxfp4_w_layout=lambda mx_axis: ("strided", {}),
        )
    ),
    matmul_ogs=SimpleNamespace(
        PrecisionConfig=_precision,
        FlexCtx=lambda rhs_data: rhs_data,
        InFlexData=lambda: None,
        FnSpecs=lambda *arguments: arguments,
        FusedActivation=_activation,
        matmul_ogs=_multiply,
    ),
    swiglu=SimpleNamespace(swiglu_fn=None),
    routing=SimpleNamespace(routing=_route),
)
"""What transformers' `get_kernel` returns."""
