"""Training: fifty steps lower the loss, and a resumed run goes on where the first one stood."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from demo import train
from demo.batches import HEARD, KNOWN, Batch, Cut, known_tokens, pool, stream
from demo.model import Shape
from demo.optim import orthogonal
from demo.train import fresh, rate_at, restore, rounded, save, train_step
from demo.weights import pack, unpack
from harmony import vocab
from harmony.tokenizer import encode

SMALL = Shape(layers=4, heads=4, kv_heads=2, intermediate=32)
KNOWN_TOKENS = torch.cat((torch.arange(1000), torch.arange(200_000, 200_020)))
FEW = Cut(size=30, tokens=768)


def batches(number: int = 0) -> list[Batch]:
    return pool(3, number, KNOWN_TOKENS.numpy(), Cut(size=40, tokens=384))


def test_fifty_steps_lower_the_loss() -> None:
    state = fresh(0, SMALL, KNOWN_TOKENS)
    made = [batch for number in range(3) for batch in batches(number)]
    losses = [train_step(state, made[i % len(made)], rate_at(i, 50 - i, 20))[0] for i in range(50)]
    assert state.step == 50
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_steps_are_made_with_the_weights_that_the_package_would_have() -> None:
    model = fresh(0, SMALL, KNOWN_TOKENS).model
    exact = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with rounded(model):
        packed, _ = unpack(pack(exact, model.known))
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, packed[name]), name
        assert any(not torch.equal(exact[name], packed[name]) for name in exact)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, exact[name]), name


def test_same_seed_gives_same_training() -> None:
    first, second = (fresh(0, SMALL, KNOWN_TOKENS) for _ in range(2))
    for batch in batches()[:3]:
        assert train_step(first, batch, 1.0) == train_step(second, batch, 1.0)


def test_batches_are_the_same_for_the_same_seed_and_number() -> None:
    for one, other in zip(batches(), batches(), strict=True):
        assert torch.equal(one.rows, other.rows)
        assert torch.equal(one.candidates, other.candidates)


def test_targets_are_the_next_tokens() -> None:
    for batch in batches():
        ids = batch.tokens[batch.rows].view(-1)
        assert torch.equal(batch.candidates[batch.targets], ids[batch.at + 1])
        assert set(batch.weights.tolist()) == {1.0, np.float32(HEARD)}
        assert batch.shares.min() == 0
        assert batch.shares.max() > 1


def test_resumed_training_equals_training_in_one_go(tmp_path: Path) -> None:
    made = batches()[:4]
    state = fresh(0, SMALL, KNOWN_TOKENS)
    for batch in made[:2]:
        train_step(state, batch, 1.0)
    state.place = (0, 2)
    save(state, tmp_path / "state.pt")
    resumed = restore(0, tmp_path / "state.pt")
    assert (resumed.step, resumed.place) == (2, (0, 2))
    for batch in made[2:]:
        assert train_step(state, batch, 0.5) == train_step(resumed, batch, 0.5)


def test_packed_row_has_whole_cases_and_computes_the_same_loss() -> None:
    state = fresh(0, SMALL, KNOWN_TOKENS)
    cut = Cut(size=20, tokens=1920, packed=True)
    (batch, *_) = pool(3, 0, KNOWN_TOKENS.numpy(), cut)
    assert batch.rows.shape == (1, 1920)
    assert batch.starts[0] == 0
    assert batch.starts[-1] == 1920
    tokens = batch.tokens[batch.rows][0]
    assert {int(tokens[start]) for start in batch.starts[:-2]} == {vocab.START}
    whole, _ = state.model.loss(batch)
    total = weight = 0.0
    for first, last in zip(batch.starts[:-1], batch.starts[1:], strict=True):
        inside = (batch.at >= first) & (batch.at < last)
        if inside.any():
            alone = replace(
                batch,
                rows=batch.rows[:, first:last],
                at=batch.at[inside] - first,
                weights=batch.weights[inside],
                targets=batch.targets[inside],
                starts=torch.empty(0, dtype=torch.int32),
            )
            part = float(batch.weights[inside].sum())
            total += state.model.loss(alone)[0].item() * part
            weight += part
    assert whole.item() == pytest.approx(total / weight, rel=2e-2)


@pytest.fixture(scope="module")
def alone() -> list[list[torch.Tensor]]:
    """The rows of three pools, made here."""
    return [[b.rows for b in pool(3, number, KNOWN_TOKENS.numpy(), FEW)] for number in range(3)]


@pytest.fixture(scope="module")
def streamed() -> list[tuple[tuple[int, int], torch.Tensor]]:
    """The places and rows of a stream of two processes, from the second batch to the third pool."""
    found = []
    with stream(3, (0, 1), KNOWN_TOKENS, FEW, makers=2) as made:
        for place, batch in made:
            found.append((place, batch.rows))
            if place == (2, 0):
                break
    return found


def test_several_makers_give_the_pools_of_one(streamed: list[Any], alone: list[Any]) -> None:
    places = [(number, at) for number in range(2) for at in range(len(alone[number]))]
    assert [place for place, _ in streamed] == [*places[1:], (2, 0)]
    assert all(torch.equal(rows, alone[number][at]) for (number, at), rows in streamed)


def test_minutes_bound_the_training_and_cool_it_down() -> None:
    options = Namespace(minutes=2.0, cooldown=0.5, rate=0.7)
    pace = train.Pace(options)
    pace.began -= 90
    assert pace.left(10**6) == pytest.approx(30, abs=1)
    assert pace.rate(10**6) == pytest.approx(0.35, abs=0.02)


def test_stream_begins_at_the_requested_position(streamed: list[Any], alone: list[Any]) -> None:
    place, rows = streamed[0]
    assert place == (0, 1)
    assert torch.equal(rows, alone[0][1])


def test_training_saves_and_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stream:
        def __enter__(self) -> Iterator[Any]:
            return (((0, i), batch) for i, batch in enumerate(batches()))

        def __exit__(self, *exc: object) -> None: ...

    monkeypatch.setattr(train, "stream", lambda *args, **options: Stream())
    caplog.set_level("INFO")
    state = fresh(0, SMALL, KNOWN_TOKENS)
    options = Namespace(
        seed=0,
        workers=1,
        steps=4,
        cooldown=2,
        rate=1.0,
        every=2,
        save_every=2,
        focus=[],
        out=tmp_path,
        minutes=None,
        device="cpu",
        makers=1,
    )
    train.train(state, options)
    assert state.step == 4
    assert restore(0, tmp_path / "state.pt").place == (0, 4)
    assert [r.getMessage().split()[:2] for r in caplog.records] == [["step", "2"], ["step", "4"]]


def test_rate_warms_up_stays_and_cools_down() -> None:
    assert rate_at(0, 1000, 100) == pytest.approx(0.02)
    assert rate_at(500, 500, 100) == 1.0
    assert rate_at(950, 50, 100) == pytest.approx(0.5)
    assert rate_at(950, -1.5, 100) == 0


def test_orthogonal_makes_all_singular_values_alike() -> None:
    torch.manual_seed(0)
    for shape in ((2, 16, 32), (2, 32, 16)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)).float())
        assert values.min() > 0.5
        assert values.max() < 1.3


def test_known_tokens_hold_all_short_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    # So few cases have more tokens than get rows, and a sixth of the numbers.
    monkeypatch.setattr("demo.batches._COUNTED", 120)
    monkeypatch.setattr("demo.batches._PART", 50)
    known = known_tokens(0).tolist()
    assert len(known) == len(set(known)) == KNOWN
    assert {encode(str(number))[0] for number in range(1000)} <= set(known)
    assert vocab.START in known


def test_no_token_is_left_out_to_align_the_candidates() -> None:
    cut = Cut(size=4, tokens=1920, packed=True)
    drawn = [
        batch.candidates
        for number in range(40)
        for batch in pool(3, number, KNOWN_TOKENS.numpy(), cut)
    ]
    assert {len(candidates) % 64 for candidates in drawn} == {0}
    highest = sum(int((one > 198_000).sum() - (one >= 199_998).sum()) for one in drawn)
    middle = sum(int(((one > 150_000) & (one <= 151_998)).sum()) for one in drawn)
    assert highest > middle / 2


def test_training_ends_if_a_process_that_makes_batches_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("demo.batches._PATIENCE", 0.1)
    broken = Cut(focus=("none such",), size=20)
    with (
        stream(3, (0, 0), KNOWN_TOKENS, broken) as made,
        pytest.raises(RuntimeError, match="has ended"),
    ):
        next(made)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--minutes", "1", "--workers", "2"], "needs --workers 1"),
        (["--minutes", "1", "--workers", "1", "--cooldown", "700"], "is a share"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    given: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["train", *given])
    with pytest.raises(SystemExit):
        train.main()
    assert problem in capsys.readouterr().err
