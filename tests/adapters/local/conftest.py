import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from adapters.base import BackendConfig

# First: what imports transformers without `lean_imports` takes twice the time.
from adapters.local.opening import LocalBackend


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
def make_tiny() -> Callable[..., Path]:
    """Writes a gpt-oss of a few hundred kilobytes with a vocabulary of 1,000 into a folder."""

    from transformers import AutoConfig, AutoModelForCausalLM

    def make(folder: Path) -> Path:
        config = AutoConfig.for_model(
            "gpt_oss",
            vocab_size=1000,
            hidden_size=64,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            num_local_experts=2,
            num_experts_per_tok=1,
            initializer_range=0.2,
            pad_token_id=0,
        )
        build: Any = AutoModelForCausalLM.from_config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            build(config, dtype=torch.bfloat16).save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def small_config(
    local_config: BackendConfig,
    make_tiny: Callable[[Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> BackendConfig:
    """Ten times as fast as the real vocabulary, for all that needs no grammar."""
    return dataclasses.replace(local_config, model=str(make_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture
async def small(small_config: BackendConfig) -> AsyncIterator[LocalBackend]:
    async with started(small_config) as backend:
        yield backend
