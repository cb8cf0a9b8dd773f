"""The lines of the evaluation's table: what each is called, and what it has to reach."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 46


@dataclass(frozen=True, slots=True)
class Aim:
    """What a share must be at least, and what it should reach, in percent."""

    must: float
    reach: float


VALID = "valid harmony that ends by itself"
TOOL = "right tool of 1 to 8"
ARGUMENTS = "all its arguments"
CHOICE = "choice of everyday functions, turn given"
EFFORT = "effort, 2x each"
ENDS = "ends by itself at temperature 1"

AIMS: dict[str, Aim] = {
    VALID: Aim(99.5, 99.9),
    TOOL: Aim(95, 97),
    ARGUMENTS: Aim(88, 93),
    "chain": Aim(75, 90),
    "everyday": Aim(65, 85),
    "structured": Aim(92, 95),
    "python": Aim(75, 90),
    "browser": Aim(65, 85),
    "recall": Aim(98, 98),
    "sums": Aim(99, 99),
    "instructions": Aim(99, 99),
    EFFORT: Aim(100, 100),
    ENDS: Aim(99.5, 99.8),
}
"""The aims of the lines that have one."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured line. note: what the share is of, where that needs words."""

    name: str
    share: float
    count: int
    note: str = ""


def row(name: str, truths: Sequence[bool], note: str = "") -> Row:
    """The line with the share of what is true."""
    return Row(name, sum(truths) / max(1, len(truths)), len(truths), note)


def plain(line: Row) -> str:
    """A line of text; `<` where it is not what it must be."""
    aim = AIMS.get(line.name)
    aims = "" if aim is None else f"   must {aim.must:g}, reach {aim.reach:g}"
    short = "  <" if aim is not None and 100 * line.share < aim.must else ""
    note = f"   {line.note}" if line.note else ""
    return f"{line.name:{WIDTH}}{line.share:7.1%} of {line.count}{aims}{short}{note}"


def markdown(line: Row) -> str:
    """A line of a Markdown table under `MARKDOWN_HEAD`."""
    aim = AIMS.get(line.name)
    must, reach = ("", "") if aim is None else (f"{aim.must:g} %", f"{aim.reach:g} %")
    name = f"{line.name} ({line.note})" if line.note else line.name
    return f"| {name} | {100 * line.share:.1f} % | {must} | {reach} |"


MARKDOWN_HEAD = "| skill | right | must | reach |\n|---|---|---|---|"
