"""Clients that do not read their answers."""

from benchmarks.abuse.harness import Row

ROWS: tuple[Row, ...] = ()
