import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import torch

from adapters.base import BackendConfig

# First: what imports transformers without `lean_imports` takes twice the time.
from adapters.local.opening import LocalBackend
from tests.adapters.local.tiny import write_tiny


@asynccontextmanager
async def started(config: BackendConfig, **options: str) -> AsyncIterator[LocalBackend]:
    """A backend on one thread. options: those that differ from the configuration's."""
    torch.set_num_threads(1)
    backend = LocalBackend(dataclasses.replace(config, options={**config.options, **options}))
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


@pytest.fixture(scope="session")
def small_config(
    local_config: BackendConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> BackendConfig:
    """Ten times as fast as the real vocabulary, for all that needs no grammar."""
    return dataclasses.replace(local_config, model=str(write_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture
async def small(small_config: BackendConfig) -> AsyncIterator[LocalBackend]:
    async with started(small_config) as backend:
        yield backend
