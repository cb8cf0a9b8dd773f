import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapters.local.model import flash
from adapters.local.model.attention import plain, with_sinks
from tests.adapters.local.model.batches import SCALING, batch_of


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("hidden", [False, True])
def test_one_query_of_bfloat16_has_one_result(hidden: bool) -> None:
    query, key, value = noise(2, 1, 4, 8), noise(2, 9, 2, 8), noise(2, 9, 2, 8).flip(1)
    mask = torch.zeros(2, 1, 9)
    mask[0, :, 5:] = -torch.inf if hidden else 0
    half = mask.bfloat16() if hidden else None
    found = flash.few(query.bfloat16(), key.bfloat16(), value.bfloat16(), SCALING, half)
    expected = flash.few(query, key, value, SCALING, mask)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, atol=2e-2, rtol=0)


@given(count=st.integers(1, 5), keys=st.integers(1, 300), groups=st.integers(1, 3))
def test_one_query_each_follows_the_definition(count: int, keys: int, groups: int) -> None:
    query = noise(count, 1, 2 * groups, 8)
    key, value = noise(count, keys, 2, 8), noise(count, keys, 2, 8).flip(1)
    sinks = torch.zeros(2 * groups)
    ends = torch.arange(count + 1)
    batch = batch_of(query[:, 0], key.flatten(0, 1), value.flatten(0, 1), ends, ends * keys)
    found = with_sinks(*flash.few(query, key, value, SCALING, None), sinks)
    torch.testing.assert_close(found, plain(batch, sinks), atol=1e-5, rtol=1e-5)


def test_hidden_keys_have_no_part() -> None:
    query, key, value = noise(2, 3, 4, 8), noise(2, 9, 2, 8), noise(2, 9, 2, 8).flip(1)
    hidden = torch.zeros(2, 3, 9)
    hidden[0, :, 4:] = -torch.inf
    hidden[1, 1, :4] = -torch.inf
    out, lse = flash.few(query, key, value, SCALING, hidden)
    assert out.shape == (6, 4, 8)
    assert lse.shape == (4, 6)
    for rows, states in (
        (slice(0, 3), (query[:1], key[:1, :4], value[:1, :4])),
        (slice(4, 5), (query[1:, 1:2], key[1:, 4:], value[1:, 4:])),
    ):
        part, part_lse = flash.few(*states, SCALING, None)
        torch.testing.assert_close(out[rows], part)
        torch.testing.assert_close(lse[:, rows], part_lse)


@pytest.mark.parametrize(
    ("counts", "heads", "groups"),
    [
        ([], 8, []),
        ([9], 8, [[0]]),
        ([9, 8], 8, [[1], [0]]),
        ([9, 8, 9], 8, [[1], [0, 2]]),
        ([9, 8, 7], 8, [[2, 1, 0]]),
        ([9, 700, 8, 300, 1], 8, [[4, 2, 0], [3], [1]]),
        ([256, 257, 255, 256], 8, [[2, 0, 3], [1]]),
        ([32, 33, 31, 32], 64, [[2, 0, 3], [1]]),
        ([257, 258, 256, 258], 8, [[2], [0], [1, 3]]),
        ([128] * 3 + [40], 8, [[3], [0, 1, 2]]),
        (
            [200, 250, 199] * 14,
            8,
            [
                [*range(2, 42, 3), *range(0, 18, 3)],
                [*range(18, 42, 3), *range(1, 25, 3)],
                [25, 28, 31, 34, 37, 40],
            ],
        ),
    ],
)
def test_short_sequences_are_one_call_if_it_saves_several(
    counts: list[int], heads: int, groups: list[list[int]]
) -> None:
    found = flash.groups(counts, heads, 256)
    assert found == groups
    assert sorted(place for group in found for place in group) == [*range(len(counts))]
