"""Bodies of clients without a key."""

from benchmarks.abuse.harness import Row

ROWS: tuple[Row, ...] = ()
