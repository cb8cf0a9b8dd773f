"""The load of the benchmark of summaries."""

import asyncio
from typing import Any

from benchmarks import summaries


class Runs:
    """A gateway whose runs last until they are cancelled. It keeps their ids."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def start(self, spec: Any) -> Any:
        self.ids.append(spec.request_id)
        await asyncio.Event().wait()


async def test_users_at_once_have_runs_of_their_own() -> None:
    gateway: Any = Runs()
    await summaries.measure(gateway, summaries.PLAN, 3, 0.1)
    assert len(set(gateway.ids)) == 3
