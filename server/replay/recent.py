"""What belongs to recent answers, by the ids of their items and calls."""

from typing import Generic, TypeVar

from cachetools import TTLCache

SECONDS = 3600.0
"""How long a value is found, by default."""

T = TypeVar("T")


class Recent(Generic[T]):
    """Values in this process's memory. Owners see only their own.

    capacity: of all values, in the unit of their sizes; the least recently used ones are dropped
    first. seconds: how long a value is found.
    """

    def __init__(self, capacity: int, seconds: float = SECONDS) -> None:
        self._values: TTLCache[tuple[str, str], tuple[int, T]] = TTLCache(
            capacity, seconds, getsizeof=lambda sized: sized[0]
        )

    def remember(self, owner: str, key: str, value: T, size: int) -> None:
        """Store a value; one whose `size` is above the capacity is not stored."""
        if size <= self._values.maxsize:
            self._values[(owner, key)] = size, value

    def find(self, owner: str, key: str) -> T | None:
        """The value of one id; None where there is none."""
        found = self._values.get((owner, key))
        return None if found is None else found[1]
