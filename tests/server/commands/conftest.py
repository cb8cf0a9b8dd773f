"""Commands as processes that need not import the server again for each test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.forks import Fork, Forks

StartFork = Callable[..., Fork]


@pytest.fixture
def fork(forks: Forks) -> Iterator[StartFork]:
    """Starts processes that end with the test. Takes the arguments of `Forks.start`."""
    started: list[Fork] = []

    def start(*arguments: str, **options: Any) -> Fork:
        started.append(forks.start(*arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
