"""The table of `make bench` and its plot. The benchmarks are not run here."""

import platform
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import bench, local, plot, sse
from benchmarks.bench import BEGIN, END, PARTS, Goal, Part, check_goals, rows, sections, write_docs
from benchmarks.library.figures import BenchmarkFailed, Figures
from benchmarks.library.timing import Rate
from tests.documentation import section as section_of
from tests.documentation import table

PART = Part(
    "One against two",
    "one",
    "--streams 1",
    "--rounds 1",
    (Goal("one / two", least=1.0), Goal("seconds", most=2.0)),
)
OTHER = Part("Two against three", "peers", "", "", (Goal("two / three", least=1.0),))
"""With the module of the plot."""


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
    assert bench.machine() in table


def test_large_figures_are_written_without_exponents() -> None:
    table = "\n".join(rows(PART, {"one / two": 151_843.0, "seconds": 0.095123}))
    assert "| one / two | 151,800 | ≥ 1 | yes |" in table
    assert "| seconds | 0.09512 |" in table
    assert Goal("events", least=75_000).bound == "≥ 75,000"


def test_a_goal_without_its_figure_is_an_error() -> None:
    check_goals(PART, {"one / two": 1.0, "seconds": 1.0, "more": 1.0})
    with pytest.raises(
        BenchmarkFailed, match="one --streams 1 has no figure one / two, nor seconds"
    ):
        check_goals(PART, {"one: two": 1.0})


def test_the_goals_are_what_the_benchmarks_report() -> None:
    """Those that can be asked for it without running."""
    parts = {part.module: part for part in PARTS}
    check_goals(parts["sse"], sse.report(64, [dict.fromkeys(sse.ARMS, Rate(1.0, 1.0))]))
    rates = {arm: [Rate(1.0, 1.0)] for pair in local.RATIOS for arm in pair}
    check_goals(parts["local"], local.report(rates, 16, local.RATIOS))


def test_arguments_are_split_as_in_a_shell() -> None:
    (local,) = (part for part in PARTS if part.module == "local")
    assert "sampled, top_p" in local.command(quick=False)
    assert local.command(quick=True)[-2:] == ["--tokens", "4"]


def test_each_benchmark_exists() -> None:
    folder = Path(bench.__file__).parent
    assert all((folder / f"{part.module}.py").exists() for part in PARTS)


PAGE = f"# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n"


def section(part: Part, value: float) -> str:
    return "\n".join(rows(part, {goal.figure: value for goal in part.goals}))


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PARTS", (PART, OTHER))


@pytest.mark.usefixtures("parts")
def test_the_page_gets_the_sections_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    one = section(PART, 1.5)
    for _ in range(2):
        write_docs({PART.module: one}, page)
        assert page.read_text() == f"# Title\n\n{BEGIN}\n\n{one}\n{END}\n\nmore\n"


@pytest.mark.usefixtures("parts")
def test_the_page_keeps_the_sections_that_have_no_successor(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    image = "\n".join(bench.picture())
    old = {OTHER.module: section(OTHER, 1.5), bench.PLOT.name: image}
    write_docs(old, page)
    assert sections(page.read_text().partition(END)[0]) == old
    write_docs({PART.module: section(PART, 1.25)}, page)
    expected = "\n".join([section(PART, 1.25), section(OTHER, 1.5), image])
    assert page.read_text() == f"# Title\n\n{BEGIN}\n\n{expected}\n{END}\n\nmore\n"
    write_docs({OTHER.module: section(OTHER, 1.75)}, page)
    assert page.read_text().count("1.25") == len(PART.goals)
    assert "| two / three | 1.75 |" in page.read_text()
    assert "| two / three | 1.5 |" not in page.read_text()


def test_a_page_without_marks_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    with pytest.raises(ValueError, match="no marks"):
        write_docs({}, page)


def test_the_documentation_has_a_section_for_each_benchmark() -> None:
    """With a line for each goal, in the order in which a run would write them."""
    found = sections(bench.DOCS.read_text().partition(BEGIN)[2].partition(END)[0])
    assert list(found) == [*(part.module for part in PARTS), bench.PLOT.name]
    for part in PARTS:
        text = found[part.module]
        assert text.startswith(f"**{part.title}** (`{bench.shown(part)}`)\n\nMeasured on ")
        assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][
            1:
        ] == [f"| {goal.figure}" for goal in part.goals]


def test_each_benchmark_is_in_the_documentation() -> None:
    folder = Path(bench.__file__).parent
    commands = {file.stem for file in folder.glob("*.py") if "__main__" in file.read_text()}
    commands |= {file.parent.name for file in folder.glob("*/__main__.py")}
    named = [row[0].strip("`") for row in table(section_of(bench.DOCS, "All benchmarks"))]
    assert named == sorted(commands)


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
    missing = Part("Not here", "two", "", "", PART.goals, needs=places / "none")
    broken = Part("Broken", "three", "", "", PART.goals)
    renamed = Part("Renamed", "four", "", "", PART.goals)
    monkeypatch.setattr(bench, "PARTS", (PART, OTHER, missing, broken, renamed))
    one = {"one / two": 1.5, "seconds": 2.5}

    def run(part: Part, quick: bool) -> Figures:
        if part is broken:
            raise BenchmarkFailed("python -m benchmarks.three ended with 1")
        figures = {PART: one, OTHER: {"two / three": 1.0}, renamed: {"seconds": 2.5}}
        return figures.get(part, CURVES)

    assert bench.main(["--docs"], run) == 1
    table = (places / "logs/results.md").read_text()
    assert "| one / two | 1.5 | ≥ 1 | yes |" in table
    assert "images/benchmark.png" in table
    assert "Renamed" not in table
    assert table in (places / "docs.md").read_text()
    assert (places / "images/benchmark.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr()
    assert "left out: Not here" in printed.out
    assert "ended with 1" in printed.err
    assert "benchmarks.four has no figure one / two" in printed.err


@pytest.mark.usefixtures("parts")
def test_one_benchmark_leaves_the_others_on_the_page(places: Path) -> None:
    def run(part: Part, quick: bool) -> Figures:
        return {goal.figure: 1.5 for goal in part.goals} or CURVES

    def again(part: Part, quick: bool) -> Figures:
        assert part is PART
        return {"one / two": 9.0, "seconds": 1.5}

    assert bench.main(["--docs"], run) == 0
    before = (places / "docs.md").read_text()
    assert "images/benchmark.png" in before
    assert bench.main(["--docs", "--only", "one"], again) == 0
    after = before.replace("| one / two | 1.5 |", "| one / two | 9 |")
    assert (places / "docs.md").read_text() == after != before


def test_little_work_is_not_published(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--docs", "--quick"], lambda *_: {})
    assert "--quick" in capsys.readouterr().err
    assert (places / "docs.md").read_text() == PAGE


def test_one_benchmark_can_be_chosen(places: Path) -> None:
    """With little work its figures may have other names, which is no error."""
    ran: list[str] = []

    def run(part: Part, quick: bool) -> Figures:
        ran.append(part.module)
        return {}

    assert bench.main(["--only", "sse", "--quick"], run) == 0
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
    assert platform.node() not in described
    assert f"Python {sys.version.split()[0]}" in described


def test_the_machine_is_described_with_its_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "multiplies_bfloat16", lambda: True)
    assert f"({torch.backends.cpu.get_cpu_capability()}, bfloat16)" in bench.machine()
