"""The plot of engines over streams: `python -m benchmarks.plot FIGURES.json PICTURE.png`.

The figures are those of `python -m benchmarks.peers`. The left part has tokens per second, the
right part processor time for each token.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.library.figures import Figures

UNITS = {"tokens/s": "tokens per second", "CPU ms/token": "processor time for each token, ms"}
NAME = re.compile(r"(?P<streams>\d+) streams of \d+ tokens: (?P<engine>[^,]+), (?P<unit>.+)")
COLOURS = {"ours": "#0b6e99", "vLLM": "#d9822b", "llama.cpp": "#7a7a7a"}

Curves = dict[str, dict[str, dict[int, float]]]


def curves(figures: Figures) -> Curves:
    """By unit and engine: the value for each number of streams."""
    found: Curves = {unit: defaultdict(dict) for unit in UNITS}
    for name, value in figures.items():
        if (match := NAME.fullmatch(name)) and match["unit"] in found:
            found[match["unit"]][match["engine"]][int(match["streams"])] = value
    return found


def draw(figures: Figures, file: Path) -> None:
    """Write the plot as a PNG."""
    # Needed by this command alone.
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    picture, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, (unit, engines) in zip(axes, curves(figures).items(), strict=True):
        for engine, points in engines.items():
            streams = sorted(points)
            axis.plot(
                streams,
                [points[count] for count in streams],
                marker="o",
                label="gpt-oss-server" if engine == "ours" else engine,
                color=COLOURS.get(engine),
            )
        axis.set_xscale("log", base=2)
        axis.set_xlabel("streams")
        axis.set_ylabel(UNITS[unit])
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(FixedLocator(sorted({n for p in engines.values() for n in p})))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Without the date and version, so that equal figures make equal files.
    picture.savefig(file, dpi=110, metadata={"Software": None})
    pyplot.close(picture)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
