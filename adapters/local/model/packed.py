"""Linear layers for a CPU, whose weights are packed in the order in which a kernel reads them."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from adapters.local.memory import use_huge_pages

logger = logging.getLogger(__name__)

_ROWS = 16
_CHECKED_ROWS = (1, 3, 16, 64)
_CHECKED = 2048
_BOUND = 1e-2
_LEAST = 2**-12
_TYPES = (torch.bfloat16, torch.float32)


class PackedLayer(nn.Module):
    """A linear layer whose weights a kernel has packed to read them faster.

    The operators of the subclasses are not part of torch's public interface: `works` checks them
    before they are used.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """weight: [features out, features in]; not referenced afterwards. bias: [features out] of
        the type of the states, which is kept.
        """
        super().__init__()
        self._features = weight.shape[0]
        self._bias = bias
        self._packed = self._pack(weight)

    def forward(self, states: Tensor) -> Tensor:
        """[..., features in] to [..., features out]."""
        if not states.numel():
            return states.new_empty((*states.shape[:-1], self._features))
        return self._product(states)

    def _pack(self, weight: Tensor) -> Any:
        raise NotImplementedError

    def _product(self, states: Tensor) -> Tensor:
        raise NotImplementedError


class ReorderedLinear(PackedLayer):
    """By oneDNN, for bfloat16 or float32: it reads the weights in half the time in its order."""

    def _pack(self, weight: Tensor) -> Tensor:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        return packed

    def _product(self, states: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise.default(
            states, self._packed, self._bias, "none", [], None
        )
        return result

    def use_huge_pages(self) -> None:
        """Let steps read the weights faster: see `memory.use_huge_pages`."""
        with suppress(AttributeError, RuntimeError):  # not a public operator
            operators = torch.ops.mkldnn
            use_huge_pages(int(operators.data_ptr(self._packed)), operators._nbytes(self._packed))


class Float16Linear(PackedLayer):
    """By FBGEMM on x86, for states of float32: it keeps the weights as float16.

    The kernel widens them as it reads them, and adds up in float32. A step reads half of the bytes
    that float32 weights have, and takes half of the time with few rows. On AVX2, with the output
    layer of the demo checkpoint, it takes a tenth longer from 48 rows on.
    """

    def _pack(self, weight: Tensor) -> Any:
        return torch.ops.quantized.linear_prepack_fp16(weight, self._bias)

    def _product(self, states: Tensor) -> Tensor:
        # With the name of the overload, which would be looked for in each call.
        result: Tensor = torch.ops.quantized.linear_dynamic_fp16.default(states, self._packed)
        return result


def packed_kind(weights: Sequence[Tensor], dtype: torch.dtype) -> type[PackedLayer] | None:
    """The class that packs `weights` for states of `dtype`; None if no class does.

    weights: [..., features] of the type in which they are stored.
    """
    if dtype == torch.float32 and float16_serves(weights):
        return Float16Linear
    if dtype in _TYPES and works(ReorderedLinear, weights[0].flatten(0, -2), dtype):
        return ReorderedLinear
    return None


def float16_serves(weights: Iterable[Tensor]) -> bool:
    """Whether `Float16Linear` computes with these values as float32 would; logs if not."""
    if not all(map(_fits_float16, weights)):
        logger.info("weights are too large or too small for float16, and stay as they are")
        return False
    return _float16_works()


def _fits_float16(weight: Tensor) -> bool:
    """Whether `weight` has 16 bits, and values that float16 has or rounds by little.

    A bfloat16 number from 2**-14 to 65504 is a float16 number too. A smaller one is rounded by at
    most 2**-25, which is little beside a greatest value of 2**-12 or more.
    """
    if weight.dtype not in (torch.bfloat16, torch.float16):
        return False
    least, greatest = torch.aminmax(weight.detach())
    magnitude = max(-float(least), float(greatest))
    return magnitude == 0 or _LEAST <= magnitude <= torch.finfo(torch.float16).max


def _float16_works() -> bool:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn((_CHECKED, 64), generator=generator, device="cpu") / 10
    return works(Float16Linear, weight, torch.float32)


@torch.no_grad()
def works(kind: type[PackedLayer], weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether `kind` computes the right products for states of `dtype`; logs the reason if not.

    weight: [features out, features in], whose first rows are used.
    """
    weight = weight[:_CHECKED].detach().to(dtype)
    generator = torch.Generator().manual_seed(0)
    try:
        packed = kind(weight.clone())
        for rows in _CHECKED_ROWS:
            states = torch.randn((1, rows, weight.shape[1]), generator=generator).to(weight.dtype)
            expected = linear(states.float(), weight.float())
            error = (packed(states).float() - expected).abs().max() / expected.abs().max()
            if not error < _BOUND:
                logger.warning("%s has an error of %g and is not used", kind.__name__, error)
                return False
    except Exception as failure:  # operators raise errors of any type
        logger.info("%s is not available: %s", kind.__name__, failure)
        return False
    return True
