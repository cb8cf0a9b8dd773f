"""Fixtures of the backends. Those that need torch import it: it takes seconds of a core."""

import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from llguidance import LLTokenizer

from adapters.base import BackendConfig
from adapters.grammars import GrammarCompiler
from demo import checkpoint
from harmony import mask_tokenizer as masks
from harmony.tokenizer import decode, encode_with_control
from harmony.vocab import VOCAB_SIZE

if TYPE_CHECKING:
    from adapters.local.backend import LocalBackend
    from tests.adapters.gpt_oss_layout import Layout


@pytest.fixture(scope="session")
def checkpoint_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The small gpt-oss that is served where none is named, made once for each checkout."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # can be switched off
    return checkpoint.ensure(cache.mkdir("checkpoint") if cache else tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="session")
def layout(checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Layout":
    """A small checkpoint with the files and formats of gpt-oss-20b."""
    from tests.adapters.gpt_oss_layout import write_layout

    return write_layout(tmp_path_factory.mktemp("layout") / "gpt-oss-20b", checkpoint_folder)


@pytest.fixture(scope="session")
def mask_tokenizer() -> LLTokenizer:
    return masks.mask_tokenizer()


@pytest.fixture
def compiler(mask_tokenizer: LLTokenizer) -> Iterator[GrammarCompiler]:
    compiler = GrammarCompiler(lambda: mask_tokenizer, VOCAB_SIZE)
    yield compiler
    compiler.close()


@pytest.fixture(scope="session")
def local_config(checkpoint_folder: Path, mask_tokenizer: LLTokenizer) -> Iterator[BackendConfig]:
    """A small cache, and float32: sums then differ so little between batches that no token does.

    TEST_DEVICE names another device (make test-gpu), TEST_BACKEND_OPTIONS further options.
    """
    # A backend that stops collects garbage; it need not look at all that was imported.
    gc.freeze()
    others = os.environ.get("TEST_BACKEND_OPTIONS", "").split()
    yield BackendConfig(
        str(checkpoint_folder),
        {
            "device": os.environ.get("TEST_DEVICE", "cpu"),
            "dtype": "float32",
            "cache_tokens": "1024",
            "batch_tokens": "128",
            **dict(one.split("=", 1) for one in others),
        },
        encode_with_control,
        decode,
        lambda: mask_tokenizer,
    )
    gc.unfreeze()


@pytest.fixture
async def local(local_config: BackendConfig) -> AsyncIterator["LocalBackend"]:
    import torch

    from adapters.local.opening import LocalBackend

    torch.set_num_threads(1)
    backend = LocalBackend(local_config)
    await backend.start()
    yield backend
    await backend.stop()
