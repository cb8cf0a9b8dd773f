from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from adapters.base import SamplingParams
from adapters.local.steps import sampling
from adapters.local.steps.sampling import Tally, draw, greedy, penalise, uniform, warp_of

CPU = torch.device("cpu")


GOLDEN = (5**0.5 - 1) / 2


def spread(logits: torch.Tensor, params: SamplingParams, draws: int = 1000) -> Counter[int]:
    """How often each column of one row comes when the pairs of random numbers are evenly spread."""
    index = torch.arange(draws, dtype=torch.float64)
    uniforms = torch.stack([(index + 0.5) / draws, (index * GOLDEN) % 1], 1)
    rows = logits.expand(draws, -1).contiguous()
    return Counter(draw(rows, warp_of([params] * draws, CPU), uniforms).tolist())


def twice(numbers: list[float]) -> torch.Tensor:
    """Random numbers for rows: the same for the first and the second draw."""
    return torch.tensor([numbers, numbers], dtype=torch.float64).T


def reference(logits: torch.Tensor, params: SamplingParams) -> dict[int, float]:
    """The distribution in textbook terms: sort, cut, renormalise, in float64.

    Columns that are as likely as the last one of a cut remain too.
    """
    scaled = logits.double().numpy() / params.temperature
    probs = np.exp(scaled - scaled.max())
    probs /= probs.sum()
    included = [int(i) for i in np.argsort(-probs) if probs[i] >= params.min_p * probs.max()]
    if params.top_k:
        included = included[: params.top_k]
    shares = np.array([probs[i] for i in included])
    before = (shares.cumsum() - shares) / shares.sum()
    included = [i for i, mass in zip(included, before, strict=True) if mass < params.top_p]
    included = [int(i) for i in np.flatnonzero(probs >= probs[included[-1]] * (1 - 1e-9))]
    total = sum(probs[i] for i in included)
    return {i: float(probs[i] / total) for i in included}


@pytest.mark.parametrize("width", [7, 128, 1000])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.4),
        SamplingParams(temperature=3.0, top_k=5),
        SamplingParams(top_p=0.6),
        SamplingParams(min_p=0.2),
        SamplingParams(temperature=1.5, top_k=20, top_p=0.8, min_p=0.01),
    ],
    ids=str,
)
@pytest.mark.parametrize("leading", [4, 1024])
def test_draws_follow_the_distribution(
    width: int, params: SamplingParams, leading: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_LEADING", leading)
    logits = torch.randn(width, generator=torch.Generator().manual_seed(width)) * 3
    expected = reference(logits, params)
    counts = spread(logits, params)
    assert set(counts) <= set(expected)
    for column, share in expected.items():
        assert counts[column] / 1000 == pytest.approx(share, abs=0.003)


SHAPES = {
    "flat": torch.zeros(200),
    "steps": torch.arange(200) // 20 * -0.4,
    "zipf": torch.arange(1, 201).log() * -1.1,
    "peaked": torch.randn(200, generator=torch.Generator().manual_seed(5)) * 4,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_thousand_tokens_have_the_exact_distribution(shape: str) -> None:
    logits, params, batch, tokens = SHAPES[shape], SamplingParams(top_p=0.8), 1000, 100_000
    generator, counts = torch.Generator().manual_seed(1), Counter[int]()
    warp = warp_of([params] * batch, CPU)
    for _ in range(tokens // batch):
        uniforms = torch.rand(batch, 2, dtype=torch.float64, generator=generator)
        counts.update(draw(logits.expand(batch, -1).contiguous(), warp, uniforms).tolist())
    expected = reference(logits, params)
    assert set(counts) <= set(expected)
    observed = [counts[column] for column in expected]
    assert chisquare(observed, [tokens * share for share in expected.values()]).pvalue > 0.001


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "params", [SamplingParams(top_p=0.8), SamplingParams(top_p=0.9, min_p=0.1)]
)
@pytest.mark.parametrize("draws", [2, 4])
def test_many_tokens_have_the_exact_distribution(
    shape: str, params: SamplingParams, draws: int
) -> None:
    """Points of a Sobol sequence leave a tenth of the squares that independent numbers leave.

    Thus few tokens show a small bias: one that shifts each of 200 columns by 4 %, each of two by
    0.5 %.
    """
    logits, batch = SHAPES[shape], 1024
    tokens = 8 * batch if shape in ("flat", "steps") else 4 * batch  # those of many columns
    points = torch.quasirandom.SobolEngine(draws, scramble=True, seed=1)
    warp, counts = warp_of([params] * batch, CPU), Counter[int]()
    for _ in range(tokens // batch):
        uniforms = points.draw(batch, dtype=torch.float64)
        counts.update(draw(logits.expand(batch, -1).contiguous(), warp, uniforms).tolist())
    expected = reference(logits, params)
    assert set(counts) <= set(expected)
    squares = sum(
        (counts[column] - tokens * share) ** 2 / (tokens * share)
        for column, share in expected.items()
    )
    # Independent numbers would give 1 for each degree of freedom.
    assert squares / (len(expected) - 1) < 400 / tokens


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=300),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.builds(
        SamplingParams,
        temperature=st.floats(1e-5, 5),
        top_p=st.floats(1e-6, 1),
        top_k=st.integers(0, 400),
        min_p=st.floats(0, 1),
    ),
)
def test_every_draw_is_an_included_column(
    values: list[float], number: float, again: float, params: SamplingParams
) -> None:
    logits = torch.tensor([values])
    (column,) = draw(
        logits, warp_of([params], CPU), torch.tensor([[number, again]], dtype=torch.float64)
    ).tolist()
    best = max(values)
    assert 0 <= column < len(values)
    if params.top_k:
        # Equally likely tokens stay together, also those that float32 cannot tell apart.
        last = sorted(values, reverse=True)[min(params.top_k, len(values)) - 1]
        assert values[column] >= last - 1e-5 * max(1, abs(last)) * max(1, params.temperature)
    if params.min_p:
        share = np.exp((values[column] - best) / params.temperature)
        assert share >= params.min_p * (1 - 1e-4)


def test_a_rows_draw_does_not_depend_on_its_neighbours() -> None:
    logits = torch.randn(9, 2011, generator=torch.Generator().manual_seed(0)) * 2
    params = [
        SamplingParams(temperature=0.5 + row / 5, top_p=1 - row / 20, top_k=row * 3, min_p=row / 99)
        for row in range(9)
    ]
    uniforms = torch.tensor(
        [[uniform(row, 3, attempt) for attempt in range(4)] for row in range(9)],
        dtype=torch.float64,
    )
    together = draw(logits, warp_of(params, CPU), uniforms).tolist()
    alone = [
        int(draw(logits[[row]], warp_of([params[row]], CPU), uniforms[[row]])) for row in range(9)
    ]
    assert together == alone
    in_place = draw(logits, warp_of(params, CPU), uniforms, out=logits).tolist()
    assert in_place == together


def test_the_smallest_temperature_is_greedy() -> None:
    logits = torch.tensor([[1.0, 1.001, -5.0, 0.0]])
    warp = warp_of([SamplingParams(temperature=1e-5)], CPU)
    assert draw(logits, warp, twice([0.999])).tolist() == [1]


def test_equally_likely_tokens_are_included_together() -> None:
    counts = spread(torch.tensor([1.0, 2.0, 2.0, 0.0]), SamplingParams(top_k=1))
    assert set(counts) == {1, 2}


def test_an_excluded_token_is_never_drawn_at_the_edges() -> None:
    logits = torch.full((2, 300), -torch.inf)
    logits[:, 150] = 0.0
    uniforms = twice([0.0, 1 - 2**-53])
    assert draw(logits, warp_of([SamplingParams()] * 2, CPU), uniforms).tolist() == [150, 150]


def test_rows_without_a_distribution_have_minus_one() -> None:
    logits = torch.zeros(3, 200)
    logits[1] = -torch.inf
    logits[2, 5] = torch.nan
    uniforms = twice([0.5025] * 3)
    chosen = draw(logits, warp_of([SamplingParams()] * 3, CPU), uniforms).tolist()
    assert chosen == [100, -1, -1]
    assert greedy(logits).tolist() == [0, -1, -1]


def test_greedy_takes_the_likeliest() -> None:
    assert greedy(torch.tensor([[0.0, 3.0, 2.0], [5.0, 3.0, 2.0]])).tolist() == [1, 0]


def test_the_random_number_depends_on_each_argument_and_on_nothing_else() -> None:
    assert uniform(1, 2, 0) == uniform(1, 2, 0)
    numbers = {uniform(*arguments) for arguments in [(1, 2, 0), (2, 2, 0), (1, 3, 0), (1, 2, 1)]}
    assert len(numbers) == 4
    assert uniform(-1, 0) == uniform(2**64 - 1, 0)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ((1, 2), 0.40633913018787027),
        ((-7, 0, 3), 0.20040031054259233),
        ((2**63, 1000, 1), 0.48041907794370065),
    ],
)
def test_a_seed_gives_the_same_numbers_in_each_version(
    arguments: tuple[int, ...], number: float
) -> None:
    assert uniform(*arguments) == number


def test_random_numbers_are_even_over_seeds_and_positions() -> None:
    numbers = np.array(
        [[uniform(seed, position) for position in range(100)] for seed in range(100)]
    )
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert np.abs(counts - 500).max() < 110  # five standard deviations
    assert np.abs(numbers.mean(axis=0) - 0.5).max() < 0.15
    assert np.abs(np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]) < 0.4


def test_penalties_follow_openais_and_vllms_formulas() -> None:
    logits = torch.tensor([1.0, -2.0, 3.0, 4.0])
    params = SamplingParams(repetition_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25)
    # Token 0 stands in the prompt only, token 1 was sampled twice, token 3 once.
    tally = Tally(torch.tensor([0, 1, 3]), torch.tensor([0.0, 2.0, 1.0]))
    penalise(logits, params, tally)
    assert logits.tolist() == [0.5, -4.0 - 1.0 - 0.25, 3.0, 2.0 - 0.5 - 0.25]


def test_log_probabilities_are_those_of_the_logits_best_first() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, -5.0], [0.0, 0.0, 9.0]])
    ranked = sampling.rank(logits, 2)
    found = sampling.logprobs_of(ranked, [0, 1, 2], [2, 1, 0])
    expected = logits.double().log_softmax(-1)
    assert [own for own, _ in found] == pytest.approx(expected.diagonal().tolist(), abs=1e-6)
    assert [[token_id for token_id, _ in top] for _, top in found] == [[1, 2], [0], []]
    (_, best), (_, only), _ = found
    assert [logprob for _, logprob in best] == pytest.approx(expected[0, [1, 2]].tolist(), abs=1e-6)
    assert only[0][1] == pytest.approx(float(expected[1, 0]), abs=1e-6)


def test_the_ids_of_the_whole_vocabulary_are_exact() -> None:
    logits = torch.full((1, 201_088), -1.0)
    logits[0, 201_087], logits[0, 201_086] = 2.0, 1.0
    ((_, top),) = sampling.logprobs_of(sampling.rank(logits, 2), [0], [2])
    assert [token_id for token_id, _ in top] == [201_087, 201_086]


@pytest.mark.parametrize("width", [1, 31, 64, 100, 127])
def test_bits_are_unpacked_alike_on_the_host_and_on_a_device(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    bits = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 4)).astype(np.int32)
    expected = [[bool(int(row[i // 32]) >> (i % 32) & 1) for i in range(width)] for row in bits]
    assert sampling.unpack(bits, width, CPU).tolist() == expected

    class Elsewhere:
        """Says that it is no CPU; what follows runs on one all the same."""

        type = "elsewhere"

    arange = torch.arange
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: tensor)
    monkeypatch.setattr(torch, "arange", lambda *args, device, **more: arange(*args, **more))
    assert sampling.unpack(bits, width, Elsewhere()).tolist() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("top_k", [0, 3, 4, 5, 200, 255, 256, 257, 2**31])
def test_a_top_k_beyond_the_leading_tokens_keeps_as_many(
    monkeypatch: pytest.MonkeyPatch, top_k: int
) -> None:
    logits = torch.randn(2, 256, generator=torch.Generator().manual_seed(0))
    warp = warp_of([SamplingParams(top_k=top_k), SamplingParams(top_k=7, top_p=0.9)], logits.device)
    whole, by_row = logits.softmax(-1), logits.softmax(-1)
    sampling._truncate(whole, warp)
    monkeypatch.setattr(sampling, "_LEADING", 4)
    sampling._truncate(by_row, warp)
    assert torch.equal(whole, by_row)
    assert int((whole[0] > 0).sum()) == (min(top_k, 256) or 256)
