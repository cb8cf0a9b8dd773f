"""What bodies that nobody takes cost a server: the trials that found it, within their bounds."""

import pytest

from benchmarks.abuse import anonymous
from benchmarks.abuse.harness import Row, measure

NAMES = (
    "60 zstd bombs to an unknown path",
    "60 zstd bombs with a key",
    "150 bodies of 30 MB with a wrong key at once",
)


@pytest.mark.parametrize(
    "row", [row for row in anonymous.ROWS if row.name in NAMES], ids=lambda row: row.name
)
def test_bodies_cost_no_more_memory_than_they_may(row: Row) -> None:
    result = measure(row)
    assert result.peak_memory <= row.memory, result
    assert result.memory_after <= row.memory, result


def test_the_trials_are_there() -> None:
    assert {row.name for row in anonymous.ROWS} >= set(NAMES)
