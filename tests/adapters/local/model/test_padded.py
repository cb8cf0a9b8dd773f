from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapters.local.model import padded
from adapters.local.model.attention import plain, with_sinks
from tests.adapters.local.model.batches import SCALING, batch_of


def case(counts: list[int], key_heads: int = 2, groups: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Noise for sequences with one query each, and so many keys."""
    generator = torch.Generator().manual_seed(sum(counts))

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    keys, values = (noise(sum(counts), key_heads, 8) for _ in range(2))
    return noise(len(counts), key_heads * groups, 8), keys, values


def spans(counts: list[int]) -> list[tuple[int, int]]:
    return list(pairwise([0, *torch.tensor(counts).cumsum(0).tolist()]))


@given(
    counts=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
)
def test_one_query_each_follows_the_definition(
    counts: list[int], key_heads: int, groups: int
) -> None:
    tensors = case(counts, key_heads, groups)
    sinks = torch.zeros(key_heads * groups)
    out, lse = padded.one_query(*tensors, spans(counts), SCALING)
    ends = torch.tensor([0, *counts]).cumsum(0)
    expected = plain(batch_of(*tensors, torch.arange(len(counts) + 1), ends), sinks)
    torch.testing.assert_close(with_sinks(out, lse, sinks), expected, atol=1e-5, rtol=1e-5)


def test_a_sequence_that_is_not_numbers_affects_no_other() -> None:
    query, keys, values = case([3, 9, 4])
    keys[3:12] = values[3:12] = torch.nan
    out, lse = padded.one_query(query, keys, values, spans([3, 9, 4]), SCALING)
    assert out[1].isnan().all()
    assert out[[0, 2]].isfinite().all()
    assert lse[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize(
    ("counts", "heads", "groups"),
    [
        ([], 8, []),
        ([9], 8, []),
        ([9, 8], 8, []),
        ([9, 8, 9], 8, [[1, 0, 2]]),
        ([9, 700, 8, 300, 1], 8, [[4, 2, 0]]),
        ([256, 257, 255, 256], 8, [[2, 0, 3]]),
        ([32, 33, 31, 32], 64, [[2, 0, 3]]),
        ([128] * 15 + [40], 8, []),
        ([128, 40] * 3, 8, [[1, 3, 5, 0, 2, 4]]),
        ([200, 250] * 20, 8, [list(range(0, 40, 2)), list(range(1, 33, 2)), [33, 35, 37, 39]]),
    ],
)
def test_short_sequences_are_one_call_if_it_saves_several(
    counts: list[int], heads: int, groups: list[list[int]]
) -> None:
    assert padded.decoding_groups(counts, heads, 256) == groups
