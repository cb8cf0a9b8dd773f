from collections.abc import AsyncIterator

import pytest

from tests.adapters.fake_engine import FakeEngine, running

GENERATE = "/inference/v1/generate"


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    """A server that speaks what vLLM 0.32 was recorded to say."""
    engine = FakeEngine("vllm.json")
    engine.will("/v1/models", engine.recorded("models"))
    engine.will(GENERATE, engine.recorded("empty"), engine.recorded("length"))
    async with running(engine):
        yield engine
