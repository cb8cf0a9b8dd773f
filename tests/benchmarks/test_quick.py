"""The comparison of benchmarks with their bounds. `.ci/run` runs the benchmarks themselves."""

from pathlib import Path

import pytest

from benchmarks import local, quick, sse
from benchmarks.library.figures import BenchmarkFailed, Figures
from benchmarks.library.timing import Rate
from benchmarks.quick import BOUNDS, Benchmark, Outcome, Ratio, judge, read_bounds

A, B = Ratio("a / baseline", 0.8, 0.5), Ratio("b / baseline", 0.9, 0.5)
PAIR = Benchmark(("pair", "--rounds", "1"), "two ratios", (A, B))


class Runs:
    """Returns the given figures, one after the other, and counts the runs."""

    def __init__(self, *figures: Figures) -> None:
        self.left = list(figures)

    def __call__(self, benchmark: Benchmark) -> Figures:
        return self.left.pop(0)


def pair(a: float, b: float) -> Figures:
    return {A.name: a, B.name: b, "a, events per processor second": 1000.0}


def test_a_ratio_at_its_bound_is_accepted_at_once() -> None:
    runs = Runs(pair(0.5, 0.6), pair(0.1, 0.1))
    outcomes = judge(PAIR, runs)
    assert outcomes == [Outcome(PAIR, A, (0.5,)), Outcome(PAIR, B, (0.6,))]
    assert not any(outcome.is_slower for outcome in outcomes)
    assert len(runs.left) == 1


def test_noise_in_two_tries_is_accepted() -> None:
    runs = Runs(pair(0.4, 0.6), pair(0.3, 0.1), pair(0.6, 0.1))
    a, b = judge(PAIR, runs)
    assert (a.values, a.is_slower) == ((0.4, 0.3, 0.6), False)
    # What has reached its bound once is not judged again.
    assert (b.values, b.is_slower) == ((0.6,), False)


def test_three_tries_below_the_bound_are_a_slow_down() -> None:
    a, b = judge(PAIR, Runs(*[pair(0.4, 0.6)] * 3))
    assert a.is_slower
    assert not b.is_slower


def test_a_ratio_that_the_benchmark_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="a / baseline"):
        judge(PAIR, Runs({}))


BOUNDS_TEXT = """
[[benchmark]]
command = "pair --cases 'one, two'"
about = "this and that"
[[benchmark.ratio]]
name = "a / baseline"
usual = 0.8
least = 0.5
"""


@pytest.fixture
def bounds(tmp_path: Path) -> Path:
    file = tmp_path / "bounds.toml"
    file.write_text(BOUNDS_TEXT)
    return file


def test_bounds_are_read(bounds: Path) -> None:
    (benchmark,) = read_bounds(bounds)
    assert benchmark.command == ("pair", "--cases", "one, two")
    assert benchmark.ratios == (A,)


def test_a_slow_down_is_explained(bounds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quick.main(["--bounds", str(bounds)], Runs(*[{A.name: 0.41}] * 3)) == 1
    printed = capsys.readouterr()
    assert "0.41 0.41 0.41" in printed.out
    assert "SLOWER" in printed.out
    assert "python -m benchmarks.pair --cases 'one, two'" in printed.err
    assert "this and that" in printed.err


def test_without_a_slow_down_the_command_succeeds(
    bounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick.main(["--bounds", str(bounds)], Runs({A.name: 0.6})) == 0
    assert capsys.readouterr().err == ""


def test_some_benchmarks_can_be_chosen(bounds: Path) -> None:
    assert quick.main(["--bounds", str(bounds), "--only", "other"], Runs()) == 0


def test_a_benchmark_that_breaks_fails_the_command(
    bounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(benchmark: Benchmark) -> Figures:
        raise BenchmarkFailed("python -m benchmarks.pair ended with 1")

    assert quick.main(["--bounds", str(bounds)], broken) == 1
    assert "ended with 1" in capsys.readouterr().err


def test_bounds_leave_room_for_noise_and_none_for_slow_downs() -> None:
    """A bound near the usual ratio fails builds by chance; half of it misses half of the speed."""
    for benchmark in read_bounds(BOUNDS):
        for ratio in benchmark.ratios:
            assert 0.5 <= ratio.least / ratio.usual <= 0.8, ratio


def test_the_bounds_are_those_of_figures_that_are_reported() -> None:
    """Those that can be asked for it without running."""
    bounds = {benchmark.name: benchmark for benchmark in read_bounds(BOUNDS)}
    arms = {arm: [Rate(1.0, 1.0)] for pair in local.RATIOS for arm in pair}
    found = {
        "sse": sse.report(16, [dict.fromkeys(sse.ARMS, Rate(1.0, 1.0))]),
        "local": local.report(arms, 16, local.RATIOS),
    }
    for name, figures in found.items():
        assert {ratio.name for ratio in bounds[name].ratios} <= set(figures)
