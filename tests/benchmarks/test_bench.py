"""The table of `make bench` and its plot. The benchmarks are not run here."""

import sys
from pathlib import Path

import pytest
import torch

from benchmarks import bench, plot
from benchmarks.bench import BEGIN, END, PARTS, Goal, Part, rows, write_docs
from benchmarks.library.figures import BenchmarkFailed, Figures

PART = Part(
    "One against two",
    "one",
    "--streams 1",
    "--rounds 1",
    (Goal("one / two", least=1.0), Goal("seconds", most=2.0), Goal("not measured", most=1.0)),
)


def test_a_goal_is_a_least_or_a_most() -> None:
    least, most = Goal("a", least=1.0), Goal("a", most=2.0)
    assert (least.is_met(1.0), least.is_met(0.9), least.bound) == (True, False, "≥ 1")
    assert (most.is_met(2.0), most.is_met(2.1), most.bound) == (True, False, "≤ 2")
    assert all((goal.least is None) != (goal.most is None) for part in PARTS for goal in part.goals)


def test_each_figure_has_its_command() -> None:
    table = "\n".join(rows(PART, {"one / two": 0.98, "seconds": 1.5}))
    assert "**One against two** (`python -m benchmarks.one --streams 1`)" in table
    assert "| one / two | 0.98 | ≥ 1 | no |" in table
    assert "| seconds | 1.5 | ≤ 2 | yes |" in table
    assert "not measured" not in table


def test_arguments_are_split_as_in_a_shell() -> None:
    (local,) = (part for part in PARTS if part.module == "local")
    assert "sampled, top_p" in local.command(quick=False)
    assert local.command(quick=True)[-2:] == ["--tokens", "4"]


def test_each_benchmark_exists() -> None:
    folder = Path(bench.__file__).parent
    assert all((folder / f"{part.module}.py").exists() for part in PARTS)


PAGE = f"# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n"


def test_the_page_gets_the_table_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for _ in range(2):
        write_docs("new", page)
        assert page.read_text() == f"# Title\n\n{BEGIN}\n\nnew\n{END}\n\nmore\n"


def test_a_page_without_marks_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    with pytest.raises(ValueError, match="no marks"):
        write_docs("new", page)


def test_the_documentation_has_the_marks() -> None:
    page = bench.DOCS.read_text()
    assert page.index(BEGIN) < page.index(END)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is written."""
    page = tmp_path / "docs.md"
    page.write_text(PAGE)
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(bench, "DOCS", page)
    monkeypatch.setattr(write_docs, "__defaults__", (page,))
    monkeypatch.setattr(bench, "PLOT", tmp_path / "images/benchmark.png")
    return tmp_path


CURVES: Figures = {
    f"{streams} streams of 32 tokens: {engine}, {unit}": streams * 1.5
    for streams in (1, 4)
    for engine in ("ours", "vLLM")
    for unit in ("tokens/s", "CPU ms/token")
}


def test_the_table_and_the_plot_are_written(
    places: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Part("Not here", "one", "", "", PART.goals, needs=places / "none")
    broken = Part("Broken", "one", "", "", PART.goals)
    monkeypatch.setattr(bench, "PARTS", (PART, missing, broken))

    def run(part: Part, quick: bool) -> Figures:
        if part is broken:
            raise BenchmarkFailed("python -m benchmarks.one ended with 1")
        return {"one / two": 1.5} if part is PART else CURVES

    assert bench.main(["--docs"], run) == 1
    table = (places / "logs/results.md").read_text()
    assert "| one / two | 1.5 | ≥ 1 | yes |" in table
    assert "images/benchmark.png" in table
    assert table in (places / "docs.md").read_text()
    assert (places / "images/benchmark.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr()
    assert "left out: Not here" in printed.out
    assert "ended with 1" in printed.err


def test_one_benchmark_can_be_chosen(places: Path) -> None:
    ran: list[str] = []

    def run(part: Part, quick: bool) -> Figures:
        ran.append(part.module)
        return {}

    assert bench.main(["--only", "sse", "--no-plot", "--quick"], run) == 0
    assert ran == ["sse"]


def test_a_benchmark_runs_with_its_arguments() -> None:
    part = Part("Commands", "startup", "--rounds 3", "--rounds 1", ())
    assert bench.run(part, True)["python -c pass, s"] > 0


def test_curves_are_read_from_the_figures() -> None:
    found = plot.curves({**CURVES, "1 streams of 32 tokens, tokens/s: ours / vLLM": 1.0})
    assert found["tokens/s"] == {"ours": {1: 1.5, 4: 6.0}, "vLLM": {1: 1.5, 4: 6.0}}
    assert set(found) == {"tokens/s", "CPU ms/token"}


def test_the_machine_is_described_without_its_name() -> None:
    described = bench.machine()
    assert described.startswith("Measured on ")
    assert bench.platform.node() not in described
    assert f"Python {sys.version.split()[0]}" in described


def test_the_machine_is_described_with_its_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "multiplies_bfloat16", lambda: True)
    assert f"({torch.backends.cpu.get_cpu_capability()}, bfloat16)" in bench.machine()
