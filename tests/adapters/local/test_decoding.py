from itertools import pairwise
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapters.local import decoding, products
from adapters.local.attention import plain, with_sinks

SCALING = 0.125


def noise(counts: list[int], key_heads: int, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, keys and values of sequences in decode with `counts` keys."""
    generator = torch.Generator().manual_seed(sum(counts))
    query = torch.randn(len(counts), key_heads * groups, 8, generator=generator)
    key, value = torch.randn(2, sum(counts), key_heads, 8, generator=generator)
    return query, key, value


def spans(counts: list[int]) -> list[tuple[int, int]]:
    return list(pairwise([0, *torch.tensor(counts).cumsum(0).tolist()]))


def check(counts: list[int], key_heads: int = 2, groups: int = 2) -> None:
    """Raises AssertionError if `one_query` does not follow the definition."""
    tensors, sinks = noise(counts, key_heads, groups), torch.randn(key_heads * groups)
    out, lse = decoding.one_query(*tensors, spans(counts), SCALING)
    ends_q, ends_k = torch.arange(len(counts) + 1), torch.tensor([0, *counts]).cumsum(0)
    expected = plain(*tensors, ends_q, ends_k, SCALING, None, sinks)
    torch.testing.assert_close(with_sinks(out, lse, sinks), expected, atol=1e-5, rtol=1e-5)


@given(
    counts=st.lists(st.integers(1, 140), min_size=1, max_size=5),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
)
def test_one_query_each_follows_the_definition(
    counts: list[int], key_heads: int, groups: int
) -> None:
    check(counts, key_heads, groups)


@pytest.mark.parametrize("count", [1, 128, 700])
def test_sequences_of_one_length_follow_the_definition(count: int) -> None:
    check([count] * 3)


def test_the_keys_of_sequences_of_one_length_are_not_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("copied")

    monkeypatch.setattr(Tensor, "index_select", fail)
    check([128] * 3)


def test_sequences_of_one_length_may_have_others_between_them() -> None:
    query, key, value = noise([5, 9, 5], 2, 2)
    apart = [(0, 5), (14, 19)]
    found, _ = decoding.one_query(query[[0, 2]], key, value, apart, SCALING)
    expected, _ = decoding.one_query(query, key, value, spans([5, 9, 5]), SCALING)
    torch.testing.assert_close(found, expected[[0, 2]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", [decoding, products])
def test_a_sequence_that_is_not_numbers_affects_no_other(method: ModuleType) -> None:
    query, key, value = noise([3, 9, 4], 2, 2)
    key[3:12] = value[3:12] = torch.nan
    out, lse = method.one_query(query, key, value, spans([3, 9, 4]), SCALING)
    assert out[1].isnan().all()
    assert out[[0, 2]].isfinite().all()
    assert lse[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([], []),
        ([100], []),
        ([100, 90], []),
        ([100, 100], [[0, 1]]),
        ([900, 900, 900], [[0, 1, 2]]),
        ([100, 129, 1, 128], [[0, 2, 3]]),
        ([100, 900, 901, 3], []),
    ],
)
def test_sequences_of_one_length_and_short_ones_are_decoded_together(
    counts: list[int], groups: list[list[int]]
) -> None:
    assert decoding.decoding_groups(counts) == groups
