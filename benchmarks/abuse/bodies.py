"""Large bodies of clients with a key."""

from benchmarks.abuse.harness import Row

ROWS: tuple[Row, ...] = ()
