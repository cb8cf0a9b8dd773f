import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from adapters.base import GenerationRequest, SamplingParams
from adapters.errors import DeadEnd, InvalidGrammar
from adapters.grammars import TokenMask
from adapters.local.steps import sampling
from adapters.local.steps.row import Row, Sampled
from adapters.local.steps.step import Step, StepResults
from adapters.local.steps.step_sampler import LogitsBuffer

WIDTH = 256
GREEDY = SamplingParams(temperature=0)


class FakeMatcher:
    """Stands in for llguidance's matcher: the same tokens may come for ever."""

    def __init__(self, allowed: tuple[int, ...]) -> None:
        self._allowed = frozenset(allowed)

    def validate_tokens(self, tokens: list[int]) -> int:
        return int(tokens[0] in self._allowed)

    def compute_ff_tokens(self) -> list[int]:
        return []


class Bench:
    """Runs single steps over its rows."""

    def __init__(self) -> None:
        self.rows: list[Row | None] = []
        self.news: StepResults = []
        self.step = Step(lambda: self.rows, self.news.extend)

    def add(self, mask: TokenMask | None = None, **fields: Any) -> Row:
        fields.setdefault("sampling", GREEDY)
        row = Row(
            str(len(self.rows)), GenerationRequest("r", (1,), 50, frozenset({9}), **fields), mask
        )
        self.rows.append(row)
        return row

    def run(self, logits: torch.Tensor) -> list[int]:
        output_ids = torch.full((1, len(logits) + 3), -7, dtype=torch.int32)
        self.step(logits.clone().unsqueeze(0), output_ids)
        return output_ids[0].tolist()[: len(self.rows)]

    def item(self, row: Row) -> Sampled:
        (item,) = [item for one, item in self.news if one is row]
        return item


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.step.close()


@pytest.fixture(autouse=True)
def still_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.grammars.TokenMask.consume", lambda *_: None)
    monkeypatch.setattr("adapters.local.steps.masks.MaskWorker.start", lambda *_: None)


def noise(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2


def mask_of(*allowed: int, many: bool = False) -> TokenMask:
    """A mask that stays as it is; `many`: as if the allowed tokens were too many to list."""
    bits = np.zeros(WIDTH, np.uint8)
    bits[list(allowed)] = 1
    mask = TokenMask(FakeMatcher(allowed), np.packbits(bits, bitorder="little").view(np.int32))  # type: ignore[arg-type]
    if many:
        mask.few_ids = None
    return mask


def test_greedy_rows_take_the_argmax(bench: Bench) -> None:
    bench.add()
    bench.add()
    logits = noise(2)
    assert bench.run(logits) == logits.argmax(-1).tolist()


def test_steps_after_their_memory_was_freed_choose_the_same(bench: Bench) -> None:
    bench.add(sampling=SamplingParams(top_p=0.9), seed=5)
    logits = noise(1)
    before = bench.run(logits)
    bench.rows = []
    bench.step.free_buffers()
    bench.add(sampling=SamplingParams(top_p=0.9), seed=5)
    assert bench.run(logits) == before


def test_memory_that_was_freed_is_gone() -> None:
    buffer = LogitsBuffer()
    memory = weakref.ref(buffer.rows(3, noise(3))._base)
    assert memory() is not None
    buffer.free()
    assert memory() is None


def test_rows_of_all_kinds_share_a_step_and_none_changes_another(bench: Bench) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"sampling": SamplingParams(), "seed": 1},
        {"sampling": SamplingParams(top_p=0.5, temperature=2), "seed": 2},
        {"sampling": SamplingParams(temperature=0, logit_bias={7: 50.0})},
        {"sampling": SamplingParams(top_k=3), "seed": 3, "mask": mask_of(*range(40, 80))},
        {"logprobs": 2},
    ]
    logits = noise(len(kinds))
    for kind in kinds:
        bench.add(**kind)
    together = bench.run(logits)
    alone = []
    for place, kind in enumerate(kinds):
        bench.rows = []
        bench.add(**kind)
        alone += bench.run(logits[[place]])
    assert together == alone
    assert together[3] == 7
    assert together[4] in range(40, 80)


def test_the_bias_is_part_of_what_a_repetition_penalty_divides(bench: Bench) -> None:
    """vLLM's order, so that the backends agree."""
    params = SamplingParams(temperature=0, repetition_penalty=2.0, logit_bias={7: 10.0})
    logits = torch.zeros(1, WIDTH)
    logits[0, [7, 8]] = torch.tensor([4.0, 9.0])
    bench.add(sampling=params)
    assert [bench.run(logits), bench.run(logits)] == [[7], [8]]


def test_a_request_that_is_gone_is_passed_over(bench: Bench) -> None:
    bench.rows.append(None)
    row = bench.add()
    logits = noise(2)
    assert bench.run(logits)[1] == int(logits[1].argmax())
    assert [one for one, _ in bench.news] == [row]


def test_rows_that_only_prefill_get_no_token(bench: Bench) -> None:
    row = bench.add()
    logits = noise(3)
    bench.run(logits)
    assert bench.item(row).token_id == int(logits[0].argmax())


def test_logprobs_are_of_the_models_own_distribution(bench: Bench) -> None:
    params = SamplingParams(temperature=0, logit_bias={7: 50.0})
    row = bench.add(sampling=params, logprobs=2)
    logits = noise(1)
    bench.run(logits)
    entry = bench.item(row).logprobs
    expected = logits[0].log_softmax(-1)
    assert entry is not None
    assert entry.token_id == 7
    assert entry.logprob == pytest.approx(float(expected[7]))
    assert [token for token, _ in entry.top] == expected.topk(2).indices.tolist()


def test_penalties_apply_to_sampled_tokens(bench: Bench) -> None:
    row = bench.add(sampling=SamplingParams(temperature=0, presence_penalty=2.0))
    logits = torch.zeros(1, WIDTH)
    logits[0, 5], logits[0, 6] = 1.5, 1.0
    assert [bench.run(logits), bench.run(logits)] == [[5], [6]]
    assert not row.ended


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("params", [GREEDY, SamplingParams(), SamplingParams(top_p=0.9)])
def test_a_grammar_lets_only_its_tokens_through(
    bench: Bench, params: SamplingParams, many: bool
) -> None:
    logits = noise(1)
    logits[0, :100] += 20
    bench.add(mask_of(120, 130, 140, many=many), sampling=params, seed=0)
    assert bench.run(logits)[0] in (120, 130, 140)


def test_a_token_that_the_grammar_allows_is_the_one_drawn_without_it(bench: Bench) -> None:
    logits = noise(1)
    bench.add(sampling=SamplingParams(), seed=5)
    free = bench.run(logits)
    bench.rows = []
    bench.add(mask_of(*range(WIDTH), many=True), sampling=SamplingParams(), seed=5)
    assert bench.run(logits) == free


def test_a_single_allowed_token_is_taken_however_unlikely(bench: Bench) -> None:
    logits = noise(1)
    logits[0, 120] = -1e30
    bench.add(mask_of(120), sampling=SamplingParams())
    assert bench.run(logits) == [120]


def test_id_0_is_a_token_like_others(bench: Bench) -> None:
    """Also in a list that is shorter than another one of its step."""
    bench.add(mask_of(0, 5))
    bench.add(mask_of(1, 2, 3))
    logits = noise(2)
    logits[0, 0] = 20.0
    assert bench.run(logits)[0] == 0


def test_the_padding_of_a_shorter_list_is_no_token(bench: Bench) -> None:
    bench.add(mask_of(4, 5))
    bench.add(mask_of(1, 2, 3))
    logits = noise(2)
    logits[0] += 20.0
    logits[0, [4, 5]] = torch.tensor([1.0, 2.0])
    assert bench.run(logits)[0] == 5


def test_tokens_that_underflow_beside_forbidden_ones_are_still_drawn(bench: Bench) -> None:
    logits = torch.full((1, WIDTH), -torch.inf)
    logits[0, 3], logits[0, 120], logits[0, 121] = 1000.0, 0.0, -1.0
    bench.add(mask_of(120, 121), sampling=SamplingParams(), seed=4)
    assert bench.run(logits)[0] in (120, 121)


@pytest.mark.parametrize("allowed", [[*range(0, WIDTH, 5)], [*range(WIDTH // 2, WIDTH)]])
@pytest.mark.parametrize(
    ("many", "truncation"), [(True, {}), (False, {}), (True, {"top_p": 0.999999})]
)
def test_masked_draws_follow_the_masked_distribution(
    bench: Bench, many: bool, truncation: dict[str, Any], allowed: list[int]
) -> None:
    """Whether the mask is looked at after a first draw or before any."""
    logits = noise(1)
    expected = logits[0, allowed].softmax(-1)
    params, mask = SamplingParams(**truncation), mask_of(*allowed, many=many)
    for seed in range(3000):
        bench.add(mask, sampling=params, seed=seed)
    counts = torch.tensor(bench.run(logits.repeat(3000, 1))).bincount(minlength=WIDTH)
    assert counts.sum() == counts[allowed].sum()
    # Five standard deviations of a binomial.
    bound = 5 * (expected * (1 - expected) / 3000).sqrt() + 1e-3
    assert ((counts[allowed] / 3000 - expected).abs() < bound).all()


def test_top_p_counts_only_what_the_grammar_allows(bench: Bench) -> None:
    logits = torch.zeros(1, WIDTH)
    logits[0, 0], logits[0, 1], logits[0, 2] = 10.0, 5.0, 4.0
    for seed in range(50):
        bench.rows = []
        bench.add(mask_of(1, 2), sampling=SamplingParams(top_p=0.7), seed=seed)
        assert bench.run(logits) == [1]


@pytest.mark.parametrize("truncation", [{"top_p": 0.9}, {"top_k": 9}, {"min_p": 0.1}])
def test_a_mask_that_leaves_many_tokens_is_never_listed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, truncation: dict[str, Any]
) -> None:
    """And the tokens are those that a list gives."""

    def explode(*_: object) -> None:
        raise AssertionError("listed")

    def add(many: bool) -> None:
        bench.rows = []
        for seed in range(5):
            mask = mask_of(*range(seed, WIDTH, 2), many=many)
            bench.add(mask, sampling=SamplingParams(**truncation), seed=seed)

    logits = noise(5)
    add(many=False)
    listed = bench.run(logits)
    add(many=True)
    monkeypatch.setattr("adapters.grammars._ids", explode)
    assert bench.run(logits) == listed


def test_logprobs_of_many_rows_are_read_in_one_copy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[int] = []
    logprobs_of = sampling.logprobs_of

    def counted(ranked: sampling.Ranked, *more: Any) -> Any:
        copies.append(len(ranked.logprobs))
        return logprobs_of(ranked, *more)

    monkeypatch.setattr(sampling, "logprobs_of", counted)
    rows = [
        bench.add(logprobs=top, sampling=SamplingParams(temperature=0, logit_bias={7: bias}))
        for top, bias in ((2, 0.0), (0, 50.0), (5, 0.0))
    ]
    bench.add()
    logits = noise(4)
    chosen = bench.run(logits)
    assert copies == [3]
    expected = logits.log_softmax(-1)
    for place, row in enumerate(rows):
        entry = bench.item(row).logprobs
        assert entry is not None
        assert entry.logprob == pytest.approx(float(expected[place, chosen[place]]))
        best = expected[place].topk(row.request.logprobs or 0)
        assert [token for token, _ in entry.top] == best.indices.tolist()
    assert bench.item(bench.rows[3]).logprobs is None  # type: ignore[arg-type]


def test_a_grammar_that_is_complete_ends_the_row_without_a_token(bench: Bench) -> None:
    mask = mask_of()
    mask.complete = True
    row = bench.add(mask)
    bench.run(noise(1))
    assert bench.item(row) == Sampled(finish_reason="stop")
    assert row.ended


@pytest.mark.parametrize("broken", ["allows nothing", "error"])
def test_a_grammar_that_cannot_go_on_fails_its_row(bench: Bench, broken: str) -> None:
    mask = mask_of()
    mask.error = InvalidGrammar("too complex") if broken == "error" else None
    row, other = bench.add(mask), bench.add()
    bench.run(noise(2))
    error = bench.item(row).error
    assert error is not None
    assert ("too complex" if broken == "error" else "no token") in str(error)
    assert type(error) is (InvalidGrammar if broken == "error" else DeadEnd)
    assert bench.item(other).error is None


def test_logits_that_are_not_numbers_fail_their_row(bench: Bench) -> None:
    rows = [
        bench.add(),
        bench.add(sampling=SamplingParams()),
        bench.add(mask_of(3, 4)),
        bench.add(),
    ]
    logits = noise(4)
    logits[:3] = torch.nan
    chosen = bench.run(logits)
    assert all(token_id >= 0 for token_id in chosen)
    for row in rows[:3]:
        assert "not numbers" in str(bench.item(row).error)
    assert bench.item(rows[3]).token_id == int(logits[3].argmax())


@pytest.mark.parametrize("function", ["penalise", "draw"])
def test_an_error_while_sampling_fails_its_row_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(sampling, function, explode)
    row = bench.add(sampling=SamplingParams(temperature=1.0, presence_penalty=1.0))
    other = bench.add()
    bench.run(noise(2))
    assert "boom" in str(bench.item(row).error)
    assert row.ended
    assert bench.item(other).error is None


def test_what_fails_for_a_batch_is_tried_row_by_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others get the tokens of a step that never failed, in this step and in the next."""
    kinds: list[dict[str, Any]] = [
        {"sampling": SamplingParams(temperature=0.5), "seed": 1},
        {"sampling": SamplingParams(temperature=0.6, min_p=0.25), "seed": 2},
        {"sampling": SamplingParams(presence_penalty=2.0), "seed": 3},
        {"sampling": SamplingParams(top_k=3), "seed": 4, "mask": mask_of(*range(40, 80))},
        {"sampling": SamplingParams(min_p=0.25), "seed": 5, "mask": mask_of(*range(40, 80))},
    ]
    for kind in kinds:
        bench.add(**kind)
    expected = [bench.run(noise(5)), bench.run(noise(5, seed=1))]
    warp_of = sampling.warp_of

    def strict(params: list[SamplingParams], device: torch.device) -> sampling.Warp:
        if any(one.min_p for one in params):
            raise OverflowError("too big")
        return warp_of(params, device)

    monkeypatch.setattr(sampling, "warp_of", strict)
    bench.rows, bench.news[:] = [], []
    rows = [bench.add(**kind) for kind in kinds]
    found = [bench.run(noise(5)), bench.run(noise(5, seed=1))]
    for place in (0, 2, 3):
        assert [step[place] for step in found] == [step[place] for step in expected]
        assert not rows[place].ended
    for place in (1, 4):
        assert "too big" in str(bench.item(rows[place]).error)


@pytest.mark.parametrize("method", ["allows", "bits", "consume"])
def test_a_mask_that_fails_fails_its_row_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("boom")

    # Nothing but 3 may come, which is not what is drawn first.
    broken = mask_of(3, many=True)
    monkeypatch.setattr(broken, method, explode)
    row, other = bench.add(broken), bench.add()
    logits = noise(2)
    bench.run(logits)
    assert "boom" in str(bench.item(row).error)
    assert row.ended
    assert bench.item(other).token_id == int(logits[1].argmax())


def test_a_row_that_ended_gets_no_more_results(bench: Bench) -> None:
    row = bench.add()
    logits = torch.zeros(1, WIDTH)
    logits[0, 9] = 1
    bench.run(logits)
    assert bench.item(row).finish_reason == "stop"
    bench.run(logits)
    assert len(bench.news) == 1


def test_many_rows_are_chosen_in_portions(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.local.steps.step_sampler._ROWS_AT_ONCE", 2)
    logits = noise(5)
    for seed in range(5):
        bench.add(sampling=SamplingParams(temperature=0.5), seed=seed)
    portions = bench.run(logits)
    monkeypatch.undo()
    assert bench.run(logits) != portions  # a step further on
    bench.rows = []
    for seed in range(5):
        bench.add(sampling=SamplingParams(temperature=0.5), seed=seed)
    assert bench.run(logits) == portions


def precomputed_masks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[TokenMask]:
    started: list[TokenMask] = []
    monkeypatch.setattr(
        "adapters.local.steps.masks.MaskWorker.start", lambda _, masks: started.extend(masks)
    )
    bench.run(noise(len(bench.rows)))
    return started


def test_a_mask_is_made_ahead_after_a_refusal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add(mask_of(int(noise(1).argmin()), 3, many=True))
    assert len(precomputed_masks(bench, monkeypatch)) == 1


def test_no_mask_is_made_ahead_where_the_choice_was_allowed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add(mask_of(*range(WIDTH), many=True))
    assert precomputed_masks(bench, monkeypatch) == []


def test_a_mask_is_always_made_ahead_where_it_shapes_the_distribution(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add(mask_of(*range(WIDTH), many=True), sampling=SamplingParams(top_p=0.9), seed=1)
    assert len(precomputed_masks(bench, monkeypatch)) == 1


def test_a_mask_is_made_once_in_a_while_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = mask_of(*range(WIDTH), many=True)
    monkeypatch.setattr(mask, "_steps_without_mask", 16)
    bench.add(mask)
    assert precomputed_masks(bench, monkeypatch) == [mask]
