"""Where the keys of sequences stand, and how they are padded to one length."""

from functools import lru_cache

import torch
from torch import Tensor

Span = tuple[int, int]
"""The first key of a sequence, and the end of its keys."""


@lru_cache(maxsize=32)
def padded_places(spans: tuple[Span, ...], width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The places of padded keys, and a mask that hides the padding; both [sequences, width].

    Padding is the sequence's own last key, so that no other sequence can affect it. Most layers of
    a step have equal spans. The results are shared, and must not be changed.
    """
    starts, ends = torch.tensor(spans).unsqueeze(2).unbind(1)
    places = starts + torch.arange(width)
    hidden = torch.zeros(places.shape, dtype=dtype).masked_fill_(places >= ends, -torch.inf)
    return torch.minimum(places, ends - 1), hidden
