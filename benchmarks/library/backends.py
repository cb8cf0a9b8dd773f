"""The backend `transformers` in the process of a benchmark."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from adapters.base import BackendConfig
from adapters.local.backend import LocalBackend
from harmony.mask_tokenizer import mask_tokenizer
from harmony.tokenizer import decode, encode_with_control


def config(model: str | Path, options: Mapping[str, str]) -> BackendConfig:
    """With the tokenizer of the server. model: a checkpoint's folder or name."""
    return BackendConfig(str(model), dict(options), encode_with_control, decode, mask_tokenizer)


@asynccontextmanager
async def local_backend(model: str | Path, **options: str) -> AsyncIterator[LocalBackend]:
    """A backend that is started, and stopped after the block."""
    mask_tokenizer()  # its seconds belong to no figure
    backend = LocalBackend(config(model, options))
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()
