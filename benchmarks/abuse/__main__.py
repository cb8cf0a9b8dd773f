"""What hostile clients can do to others: the longest stall and the memory that each attack costs.

    python -m benchmarks.abuse [ROW ...] [--list]

Each row starts a server of its own (the scripted engine), sends the attack from this process, and
has another process ask `/health` meanwhile. Printed are the longest round trip of `/health`, how
much more memory the server and its helpers held at most, and how much they still hold two seconds
later, each beside its bound. Exits with 1 where a bound does not hold.
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
    chosen = [row for row in rows.ALL if not options.row or any(o in row.name for o in options.row)]
    if options.list:
        print(*(row.name for row in chosen), sep="\n")
        return
    sys.exit(1 if sum(not report(row) for row in chosen) else 0)


def report(row: Row) -> bool:
    """Run a row and print it; True where its bounds hold."""
    result = measure(row)
    held = result.holds(row)
    print(
        f"{'ok  ' if held else 'OVER'} {row.name:50}"
        f" stall {result.stall * 1000:7.0f} ms (at most {row.stall * 1000:.0f})"
        f"  memory +{result.peak / 1e6:.0f} MB (at most {row.memory / 1e6:.0f}),"
        f" kept +{result.kept / 1e6:.0f} MB  {result.answer}",
        flush=True,
    )
    return held


if __name__ == "__main__":
    main()
