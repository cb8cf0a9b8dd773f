"""Measure the stall and the memory that hostile clients cause.

    python -m benchmarks.abuse [ROW ...] [--list]

Each row starts a server with the scripted engine and attacks it from this process, while another
process requests `/health`. The output has the longest round trip of `/health` and the largest
growth of the memory of the server and its child processes, each with its bound, and the growth that
is left two seconds after the attack. The exit status is 1 if a result exceeds its bound, or if the
server answered an attack otherwise than is expected.
"""

import argparse
import sys

from benchmarks.abuse import rows
from benchmarks.abuse.harness import Row, measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("row", nargs="*", help="part of a row's name; without, all run")
    parser.add_argument("--list", action="store_true", help="print the rows' names and exit")
    options = parser.parse_args()
    selected = [
        row for row in rows.ALL if not options.row or any(part in row.name for part in options.row)
    ]
    if options.list:
        print(*(row.name for row in selected), sep="\n")
        return
    sys.exit(1 if sum(not report(row) for row in selected) else 0)


def report(row: Row) -> bool:
    """Run a row and print the result. Returns True if bounds and answers are as they should be."""
    result = measure(row)
    within_bounds, as_expected = result.within_bounds(row), result.as_expected(row)
    verdict = ("ok" if as_expected else "WRONG") if within_bounds else "OVER"
    wanted = "" if as_expected else f", expected {' or '.join(sorted(row.expected))}"
    print(
        f"{verdict:5} {row.name:50}"
        f" stall {result.stall * 1000:7.0f} ms (at most {row.stall * 1000:.0f})"
        f"  memory +{result.peak_memory / 1e6:.0f} MB (at most {row.memory / 1e6:.0f}),"
        f" after +{result.memory_after / 1e6:.0f} MB  {result.answers}{wanted}",
        flush=True,
    )
    return within_bounds and as_expected


if __name__ == "__main__":
    main()
