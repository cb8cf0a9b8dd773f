from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from adapters.local.model import cpu_attention, flash, products
from adapters.local.model.attention import plain, with_sinks
from adapters.local.model.cpu_attention import Group, Plan, Prompt, Shape, make_plan
from adapters.local.model.precision import multiplies_bfloat16
from tests.adapters.local.model.batches import SCALING, batch_of

SHAPE = Shape(4, 16, torch.float32)


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def as_list(rows: slice | Tensor) -> list[int] | slice:
    return rows if isinstance(rows, slice) else rows.tolist()


@pytest.fixture(params=[True, False], ids=["products", "flash"])
def faster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(products, "are_faster", lambda dtype: request.param)
    return bool(request.param)


@given(
    sequences=st.lists(
        st.tuples(st.sampled_from([1, 1, 1, 2, 3, 4, 9, 17, 300]), st.integers(0, 300)),
        min_size=1,
        max_size=8,
    ),
    window=st.sampled_from([None, 128]),
    in_cache=st.booleans(),
    products_are_faster=st.booleans(),
)
def test_all_sequences_of_a_step_follow_the_definition(
    sequences: list[tuple[int, int]], window: int | None, in_cache: bool, products_are_faster: bool
) -> None:
    """In a cache, the keys of a step stand at any places, between others."""
    past = 1000 if window is None else window - 1
    queries = [count for count, _ in sequences]
    keys = [count + min(before, past) for count, before in sequences]
    query = noise(sum(queries), 4, 8)
    key, value = noise(sum(keys), 2, 8), noise(sum(keys), 2, 8).flip(0)
    ends_q, ends_k = (torch.tensor([*accumulate(each, initial=0)]) for each in (queries, keys))
    sinks = noise(4)
    expected = plain(batch_of(query, key, value, ends_q, ends_k, window), sinks)
    index = None
    if in_cache:
        index = torch.randperm(2 * len(key), generator=torch.Generator().manual_seed(0))[: len(key)]
        key, value = (
            torch.full((2 * len(one), 2, 8), torch.nan).index_copy_(0, index, one)
            for one in (key, value)
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "are_faster", lambda dtype: products_are_faster)
        plan = make_plan(queries, keys, index, SHAPE, window)
        assert plan.from_cache == in_cache
        out, lse = cpu_attention.attend(plan, query, key, value, SCALING)
    assert out.shape == query.shape
    torch.testing.assert_close(with_sinks(out, lse, sinks), expected, atol=1e-5, rtol=1e-5)


def test_neighbours_of_one_length_are_read_as_they_stand(faster: bool) -> None:
    length = 384
    plan = make_plan([1, 1, 1], [length] * 3, None, SHAPE, None)
    every = Group(3, slice(0, 3), slice(0, 3 * length), None, None, faster)
    assert plan == Plan((every,), (), 3, False, None)


def test_a_sequence_in_the_cache_needs_no_places_of_its_own(faster: bool) -> None:
    index = torch.arange(500, 884)
    (one,) = make_plan([1], [384], index, SHAPE, None).groups
    assert isinstance(one.keys, Tensor)
    assert one.keys.data_ptr() == index.data_ptr()
    assert one.hidden is None
    assert one.by_products == faster


def test_padding_repeats_the_last_key_of_its_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "are_faster", lambda dtype: True)
    monkeypatch.setattr(products, "padded_length", lambda counts: 4)
    (one,) = make_plan([1, 1], [2, 3], torch.tensor([7, 9, 20, 21, 23]), SHAPE, None).groups
    assert as_list(one.keys) == [7, 9, 9, 9, 20, 21, 23, 23]
    assert one.hidden is not None
    hidden = -torch.inf
    assert one.hidden.tolist() == [[[0, 0, hidden, hidden]], [[0, 0, 0, hidden]]]
    assert as_list(one.queries) == slice(0, 2)


def test_groups_name_the_rows_of_their_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between them are the queries of prompts, and of other groups."""
    monkeypatch.setattr(products, "are_faster", lambda dtype: False)
    plan = make_plan([1, 30, 1, 1, 1], [600, 30, 700, 600, 700], None, SHAPE, None)
    assert [as_list(one.queries) for one in plan.groups] == [[0, 32], [31, 33]]
    assert [as_list(one.keys) for one in plan.groups] == [
        [*range(600), *range(1330, 1930)],
        [*range(630, 1330), *range(1930, 2630)],
    ]
    assert [one.kept for one in plan.groups] == [None, None]
    assert plan.prompts == (Prompt(slice(1, 31), slice(600, 630), False),)


@pytest.mark.parametrize("window", [None, 2])
def test_queries_that_are_padding_are_dropped(
    monkeypatch: pytest.MonkeyPatch, window: int | None
) -> None:
    monkeypatch.setattr(products, "are_faster", lambda dtype: False)
    monkeypatch.setattr(flash, "groups", lambda counts, *_: [[0, 1]] if counts else [])
    (one,) = make_plan([3, 2], [3, 3], None, SHAPE, window).groups
    assert as_list(one.queries) == [0, 1, 2, 3, 4, 4]
    assert one.kept is not None
    assert one.kept.tolist() == [0, 1, 2, 3, 4]
    assert one.hidden is not None
    if window is None:
        assert (one.hidden == 0).tolist() == [
            [[True, False, False], [True, True, False], [True, True, True]],
            [[True, True, False], [True, True, True], [True, True, True]],
        ]
    else:
        assert (one.hidden == 0).tolist() == [
            [[True, False, False], [True, True, False], [False, True, True]],
            [[True, True, False], [False, True, True], [False, True, True]],
        ]


@pytest.mark.parametrize("faster", [False, True])
def test_few_queries_and_very_few_are_groups_of_their_own(
    monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    """A single query is not padded to several, and products compute no several ones."""
    monkeypatch.setattr(products, "are_faster", lambda dtype: faster)
    queries = [1, 2, 4, 5, 15, 16, 1]
    plan = make_plan(queries, [200] * 7, None, SHAPE, None)
    assert [one.sequences for one in plan.groups] == [2, 2, 2]
    assert [one.hidden is None or one.hidden.shape[1] for one in plan.groups][1:] == [4, 15]
    assert [one.by_products for one in plan.groups] == [faster, False, False]
    assert [one.queries for one in plan.prompts] == [slice(27, 43)]


@pytest.mark.parametrize(
    ("queries", "keys", "window", "prompts"),
    [
        (1, 5000, None, []),
        (2, 4095, None, []),
        (2, 4096, None, [True]),
        (15, 5000, 128, []),
        (16, 16, None, [True]),
        (16, 16, 128, [False]),
        (255, 300, 128, [False]),
        (256, 300, 128, [True]),
    ],
)
def test_products_compute_long_sequences_where_they_are_faster(
    monkeypatch: pytest.MonkeyPatch,
    queries: int,
    keys: int,
    window: int | None,
    prompts: list[bool],
) -> None:
    monkeypatch.setattr(products, "are_faster", lambda dtype: True)
    plan = make_plan([queries], [keys], None, SHAPE, window)
    assert [one.by_products for one in plan.prompts] == prompts
    assert len(plan.groups) == (not prompts)
    monkeypatch.setattr(products, "are_faster", lambda dtype: False)
    plan = make_plan([queries], [keys], None, SHAPE, window)
    assert not any(one.by_products for one in plan.prompts)
    assert not any(one.by_products for one in plan.groups)


@pytest.mark.skipif(not multiplies_bfloat16(), reason="no bfloat16 on this CPU")
@pytest.mark.parametrize("window", [None, 128])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_bfloat16_is_close_for_sequences_of_all_kinds(
    faster: bool, scale: float, window: int | None
) -> None:
    sequences = [(1, 90), (1, 127), (3, 100), (300, 127), (1, 400), (9, 0), (2, 127), (1, 0)]
    past = 1000 if window is None else window - 1
    queries = [count for count, _ in sequences]
    keys = [count + min(before, past) for count, before in sequences]
    query = (scale * noise(sum(queries), 8, 64)).bfloat16()
    key = noise(sum(keys), 4, 64).bfloat16()
    value = key.flip(0)
    sinks = noise(8).bfloat16()
    ends_q, ends_k = (torch.tensor([*accumulate(each, initial=0)]) for each in (queries, keys))
    expected = plain(batch_of(query, key, value, ends_q, ends_k, window), sinks)
    plan = make_plan(queries, keys, None, Shape(8, 256, torch.bfloat16), window)
    found = with_sinks(*cpu_attention.attend(plan, query, key, value, SCALING), sinks)
    torch.testing.assert_close(found.float(), expected, atol=4e-2, rtol=0)


def test_a_short_sequence_alone_is_not_computed_by_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "are_faster", lambda dtype: True)
    kinds = [
        [one.by_products for one in make_plan([1] * len(keys), keys, None, SHAPE, None).groups]
        for keys in ([320], [321], [128, 128], [3000, 3000, 100])
    ]
    assert kinds == [[False], [True], [True], [True, False]]


@pytest.mark.parametrize(
    ("faster", "queries", "window", "name", "by_products"),
    [
        (False, 16, None, "full", False),
        (True, 16, None, "full", True),
        (False, 256, 128, "windows", False),
        (True, 255, 128, "windows", False),
        (True, 256, 128, "windows", True),
    ],
)
def test_products_compute_prompts_where_they_are_faster(
    monkeypatch: pytest.MonkeyPatch,
    faster: bool,
    queries: int,
    window: int | None,
    name: str,
    by_products: bool,
) -> None:
    monkeypatch.setattr(products, "are_faster", lambda dtype: faster)
    monkeypatch.setattr(flash if by_products else products, name, None)
    plan = make_plan([queries], [queries], None, SHAPE, window)
    query, states, sinks = noise(queries, 4, 8), noise(queries, 2, 8), torch.zeros(4)
    found = cpu_attention.attend(plan, query, states, states, SCALING)
    ends = torch.tensor([0, queries])
    expected = plain(batch_of(query, states, states, ends, ends, window), sinks)
    torch.testing.assert_close(with_sinks(*found, sinks), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("longest", "groups"), [(128, [3]), (131, [1, 1, 1])])
def test_several_queries_make_a_sequence_longer_for_the_flash_kernel(
    monkeypatch: pytest.MonkeyPatch, longest: int, groups: list[int]
) -> None:
    monkeypatch.setattr(products, "are_faster", lambda dtype: False)
    plan = make_plan([4, 4, 4], [longest - 2, longest - 1, longest], None, SHAPE, None)
    assert [one.sequences for one in plan.groups] == groups
