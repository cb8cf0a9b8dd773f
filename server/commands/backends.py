"""Creates the backend that the settings select."""

import os
from collections.abc import Callable

from adapters.base import Backend, BackendConfig
from adapters.registry import create
from harmony.mask_tokenizer import mask_tokenizer as mask_tokenizer
from harmony.tokenizer import decode, encode_with_control
from server.settings import Settings


def open_backend(settings: Settings, progress: Callable[[str, float], None]) -> Backend:
    """The settings' backend, not yet started. Raises BackendError if it cannot be created.

    progress: called with a stage and the fraction of it that is done, in [0, 1].
    """
    # Read when torch is loaded. Its threads otherwise spin while they wait: if other processes use
    # the cores too, a step then takes twenty times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    config = BackendConfig(
        model=_demo_checkpoint(progress) if settings.is_demo else settings.model,
        options=settings.backend_options,
        encode=encode_with_control,
        decode=decode,
        mask_tokenizer=mask_tokenizer,
        progress=progress,
    )
    return create(settings.backend, config)


def _demo_checkpoint(progress: Callable[[str, float], None]) -> str:
    from demo.checkpoint import ensure

    return str(ensure(progress=progress))
