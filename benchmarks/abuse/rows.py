"""All rows, in the order in which they are run."""

from benchmarks.abuse import anonymous, bodies, connections, readers
from benchmarks.abuse.harness import Row

ALL: tuple[Row, ...] = (*anonymous.ROWS, *connections.ROWS, *bodies.ROWS, *readers.ROWS)
