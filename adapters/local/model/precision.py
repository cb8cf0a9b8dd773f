"""The type that a CPU computes in: float32 where products of bfloat16 numbers are slow.

oneDNN multiplies bfloat16 matrices with instructions of AVX-512, AVX-NE-CONVERT or Arm. On other
CPUs torch multiplies them by itself, at a tenth of the speed of float32. To compute in float32
takes the same weights and rounds less.
"""

from typing import Any

import torch
from torch import Tensor, nn

from adapters.local.memory import release_pages


def multiplies_bfloat16() -> bool:
    """Whether oneDNN multiplies bfloat16 matrices on this CPU; True where that is unknown."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # not a public operator
        return True


def compute_in_float32(model: Any) -> None:
    """Convert the weights of `model` to float32, except for its embedding.

    The embedding is the largest matrix of a small model, and a step reads few of its rows. They are
    converted when they are read, so that the others need not be in memory. The memory of the other
    weights' former values is released.
    """
    embedding = model.get_input_embeddings().weight.detach()
    model.set_input_embeddings(_Float32Rows(embedding))
    for parameter in model.parameters():
        former = parameter.data
        parameter.data = former.float()
        if former.data_ptr() not in (embedding.data_ptr(), parameter.data_ptr()):
            release_pages(former)


class _Float32Rows(nn.Module):
    """An embedding with float32 rows, whose weight keeps its type.

    The weight is not a parameter, so that the model's type is that of the other weights.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.weight).float()
