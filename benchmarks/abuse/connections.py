"""Headers, time and many connections."""

from benchmarks.abuse.harness import Row

ROWS: tuple[Row, ...] = ()
