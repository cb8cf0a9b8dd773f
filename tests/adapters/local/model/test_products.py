import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapters.local.model import products
from adapters.local.model.attention import attend, plain, with_sinks
from tests.adapters.local.model.batches import SCALING, batch_of


def case(
    queries: int, past: int, key_heads: int, groups: int, width: int, scale: float = 1.0
) -> dict[str, Tensor]:
    """Noise for one sequence of `queries` with `past` keys before them."""
    generator = torch.Generator().manual_seed(queries + past)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    return {
        "query": noise(queries, key_heads * groups, width) * scale,
        "key": noise(queries + past, key_heads, width) * scale,
        "value": noise(queries + past, key_heads, width),
        "sinks": noise(key_heads * groups),
    }


def by_products(query: Tensor, key: Tensor, value: Tensor, sinks: Tensor) -> Tensor:
    out = torch.full_like(query, torch.nan)
    lse = torch.full(query.shape[:2], torch.nan).t()
    for begin, end, part, part_lse in products.full(query, key, value, SCALING):
        out[begin:end] = part
        lse[:, begin:end] = part_lse
    return with_sinks(out, lse, sinks)


def by_definition(query: Tensor, key: Tensor, value: Tensor, sinks: Tensor) -> Tensor:
    ends_q, ends_k = torch.tensor([0, len(query)]), torch.tensor([0, len(key)])
    return plain(batch_of(query, key, value, ends_q, ends_k), sinks)


@given(
    queries=st.integers(1, 700),
    past=st.integers(0, 1600),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    width=st.sampled_from([8, 64]),
)
def test_products_follow_the_definition(
    queries: int, past: int, key_heads: int, groups: int, width: int
) -> None:
    tensors = case(queries, past, key_heads, groups, width)
    torch.testing.assert_close(
        by_products(**tensors), by_definition(**tensors), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("queries", [1, 63, 64, 65, 511, 512, 513, 700])
@pytest.mark.parametrize("past", [0, 1, 63, 64, 126, 127])
def test_windows_follow_the_definition(queries: int, past: int) -> None:
    tensors = case(queries, past, 2, 2, 8)
    query, key, value, sinks = tensors.values()
    out, lse = torch.full_like(query, torch.nan), torch.full(query.shape[:2], torch.nan).t()
    for begin, end, part, part_lse in products.windows(query, key, value, SCALING, 128):
        out[begin:end] = part
        lse[:, begin:end] = part_lse
    ends_q, ends_k = torch.tensor([0, len(query)]), torch.tensor([0, len(key)])
    expected = plain(batch_of(query, key, value, ends_q, ends_k, 128), sinks)
    torch.testing.assert_close(with_sinks(out, lse, sinks), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("scale", "error"), [(1.0, 0.02), (8.0, 0.05), (20.0, 0.05)])
def test_windows_in_bfloat16_are_close_with_large_scores_too(scale: float, error: float) -> None:
    tensors = {name: one.bfloat16() for name, one in case(600, 127, 2, 2, 64, scale).items()}
    query, key, value, sinks = tensors.values()
    parts = [*products.windows(query, key, value, SCALING, 128)]
    out = torch.cat([part[2] for part in parts])
    assert out.dtype == torch.bfloat16
    found = with_sinks(out, torch.cat([part[3] for part in parts], 1), sinks)
    ends_q, ends_k = torch.tensor([0, len(query)]), torch.tensor([0, len(key)])
    expected = plain(batch_of(query, key, value, ends_q, ends_k, 128), sinks)
    torch.testing.assert_close(found.float(), expected, atol=error, rtol=0)


@pytest.mark.parametrize("past", [0, 1, 511, 512, 513, 1024])
@pytest.mark.parametrize("queries", [16, 512, 513])
def test_blocks_end_where_they_should(queries: int, past: int) -> None:
    tensors = case(queries, past, 2, 2, 64)
    torch.testing.assert_close(
        by_products(**tensors), by_definition(**tensors), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(("scale", "error"), [(1.0, 0.02), (8.0, 0.05), (20.0, 0.05)])
def test_bfloat16_is_close_with_large_scores_too(scale: float, error: float) -> None:
    """Scores of some hundred, rounded to bfloat16, would be wrong by one."""
    tensors = {name: one.bfloat16() for name, one in case(600, 1700, 1, 2, 64, scale).items()}
    found = by_products(**tensors)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), by_definition(**tensors), atol=error, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_early_key_far_above_the_last_ones_does_not_overflow(dtype: torch.dtype) -> None:
    tensors = case(40, 1200, 2, 2, 64)
    tensors["key"][100] = 100 * tensors["query"][0, :2]
    tensors = {name: one.to(dtype) for name, one in tensors.items()}
    found = by_products(**tensors)
    # The first query of the first heads reads only this key.
    torch.testing.assert_close(found[0, 0], tensors["value"][100, 0], atol=1e-2, rtol=1e-2)
    expected = by_definition(**tensors)
    torch.testing.assert_close(found.float(), expected, atol=5e-2, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("above", [80.0, 85.0, 88.0, 89.0])
def test_a_weighted_value_does_not_overflow(above: float, dtype: torch.dtype) -> None:
    """Though the weight of an early key, whose score is so far above the others, may not."""
    tensors = case(4, 1200, 1, 1, 8)
    tensors["query"][:], tensors["key"][:] = torch.eye(8)[0], 0
    tensors["key"][100, 0, 0] = above / SCALING
    tensors["value"] *= 100
    tensors = {name: one.to(dtype) for name, one in tensors.items()}
    value = tensors["value"][100].expand(4, 1, 8)
    torch.testing.assert_close(by_products(**tensors), value, atol=0, rtol=1e-2)


def test_logits_that_are_not_numbers_stay_so() -> None:
    tensors = case(20, 600, 1, 1, 8)
    tensors["query"][3] = torch.nan
    found = by_products(**tensors)
    assert found[3].isnan().all()
    assert not found[4:].isnan().any()


def joined(cases: list[dict[str, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """The queries, keys and values of all cases."""
    names = ("query", "key", "value")
    query, key, value = (torch.cat([one[name] for one in cases]) for name in names)
    return query, key, value


@pytest.mark.parametrize("window", [None, 128])
@pytest.mark.parametrize("faster", [True, False])
def test_sequences_of_one_step_are_separate(
    monkeypatch: pytest.MonkeyPatch, faster: bool, window: int | None
) -> None:
    """Decoding, short and long sequences in one step, on CPUs of both kinds."""
    monkeypatch.setattr(products, "are_faster", lambda dtype: faster)
    shapes = [(1, 100), (600, 127), (5, 90), (1, 127), (16, 1), (513, 0), (1, 0)]
    cases = [case(queries, past, 4, 2, 64) for queries, past in shapes]
    tensors = joined(cases)
    ends_q = torch.tensor([0, *(queries for queries, _ in shapes)]).cumsum(0).int()
    ends_k = torch.tensor([0, *(queries + past for queries, past in shapes)]).cumsum(0).int()
    batch, sinks = batch_of(*tensors, ends_q, ends_k, window), cases[0]["sinks"]
    torch.testing.assert_close(attend(batch, sinks), plain(batch, sinks), atol=1e-5, rtol=1e-5)


@given(
    count=st.integers(1, 4),
    keys=st.integers(1, 700),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
)
def test_one_query_each_follows_the_definition(
    count: int, keys: int, key_heads: int, groups: int
) -> None:
    cases = [case(1, keys - 1, key_heads, groups, 8) for _ in range(count)]
    query, key, value = joined(cases)
    query *= torch.arange(1, count + 1).view(-1, 1, 1)
    sinks = cases[0]["sinks"]
    ends = torch.arange(count + 1)
    each = (count, keys, key_heads, 8)
    states = query.unsqueeze(1), key.view(each), value.view(each)
    found = with_sinks(*products.one_query(*states, SCALING, None), sinks)
    expected = plain(batch_of(query, key, value, ends, ends * keys), sinks)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_hidden_keys_have_no_part() -> None:
    tensors = case(2, 16, 2, 2, 8)
    query = tensors["query"].unsqueeze(1)
    key, value = (tensors[name].view(2, 9, 2, 8) for name in ("key", "value"))
    key[0, 4] = 1000 * query[0, 0, :2]
    hidden = torch.zeros(2, 1, 9)
    hidden[0, :, 4:] = -torch.inf
    out, lse = products.one_query(query, key, value, SCALING, hidden)
    for place, keys in ((0, 4), (1, 9)):
        row = slice(place, place + 1)
        states = query[row], key[row, :keys], value[row, :keys]
        part, part_lse = products.one_query(*states, SCALING, None)
        torch.testing.assert_close(out[row], part)
        torch.testing.assert_close(lse[:, row], part_lse)


@pytest.mark.parametrize(
    ("counts", "length"),
    [
        ([65], 128),
        ([128], 128),
        ([3, 129], 192),
        ([4096], 4096),
        ([4097], 4097),
        ([4097, 4100], 4160),
    ],
)
def test_products_of_similar_lengths_have_one_shape(counts: list[int], length: int) -> None:
    assert products.padded_length(counts) == length


def test_a_sequence_that_is_not_numbers_affects_no_other() -> None:
    tensors = case(3, 24, 2, 2, 8)
    key, value = tensors["key"].view(3, 9, 2, 8), tensors["value"].view(3, 9, 2, 8)
    key[1] = value[1] = torch.nan
    out, lse = products.one_query(tensors["query"].unsqueeze(1), key, value, SCALING, None)
    assert out[1].isnan().all()
    assert out[[0, 2]].isfinite().all()
    assert lse[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize(("scale", "error"), [(1.0, 0.02), (8.0, 0.05), (20.0, 0.05)])
def test_one_query_in_bfloat16_is_close_with_large_scores_too(scale: float, error: float) -> None:
    tensors = {name: one.bfloat16() for name, one in case(1, 1700, 4, 2, 64, scale).items()}
    sinks, query, key, value = (tensors[name] for name in ("sinks", "query", "key", "value"))
    each = (query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0))
    out, lse = products.one_query(*each, SCALING, None)
    expected = by_definition(**tensors)
    torch.testing.assert_close(with_sinks(out, lse, sinks).float(), expected, atol=error, rtol=0)


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([], []),
        ([100], [[0]]),
        ([129], [[0]]),
        ([512, 513], [[1, 0]]),
        ([9, 2000, 500, 1000, 1], [[1, 3], [2, 0, 4]]),
        ([8000, 100], [[0], [1]]),
        ([400] * 31, [[*range(30)], [30]]),
    ],
)
def test_sequences_are_decoded_together_up_to_a_size_and_a_padding(
    counts: list[int], groups: list[list[int]]
) -> None:
    assert products.groups(counts) == groups


def test_only_bfloat16_can_be_faster() -> None:
    assert not products.are_faster(torch.float32)
    assert products.are_faster(torch.bfloat16) in (True, False)


@pytest.mark.parametrize(("bf16", "amx"), [(True, False), (True, True), (False, False)])
def test_a_cpu_with_avx512_bf16_and_without_amx_uses_products(
    monkeypatch: pytest.MonkeyPatch, bf16: bool, amx: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert products.are_faster(torch.bfloat16) is (bf16 and not amx)
