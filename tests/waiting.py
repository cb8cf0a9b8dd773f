"""What several tests do to wait, or to have waited."""

import asyncio
from collections.abc import Callable

import pytest


async def until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds, for changes that nobody announces. Others run meanwhile."""
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition was never true")


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the running event loop's clock be ahead until the test ends; what is due then is done."""
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + seconds)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)
