"""Creates the backend that the settings select."""

import os
from typing import TYPE_CHECKING

from adapters.base import Backend, BackendConfig, Progress
from adapters.errors import BackendFailed
from adapters.registry import create
from harmony.mask_tokenizer import mask_tokenizer
from harmony.tokenizer import decode, encode_with_control
from server.settings import Settings

if TYPE_CHECKING:
    from adapters.http.engine import HTTPEngine

SPIN_COUNT = "20000"
"""How often a thread of torch looks for work before it sleeps; a hundred times take 1 us."""


def open_backend(settings: Settings, progress: Progress) -> Backend:
    """The settings' backend, not yet started. Raises BackendError if it cannot be created.

    progress: called with a stage and the fraction of it that is done, in [0, 1].
    """
    _let_threads_yield()
    model = _demo_checkpoint(progress) if settings.is_demo else settings.model
    return create(settings.backend, _config(settings, model, progress))


def open_engines(settings: Settings) -> "list[HTTPEngine]":
    """The engines of a backend of `adapters.registry.REMOTE`, each by itself and not yet started.

    Raises BackendFailed where `serve` would not accept their options.
    """
    from adapters.http.backends import open_engines  # here, because other backends need none of it

    return open_engines(settings.backend, _config(settings, settings.model))


def _config(
    settings: Settings, model: str | None, progress: Progress = lambda stage, fraction: None
) -> BackendConfig:
    return BackendConfig(
        model=model,
        options=settings.backend_options,
        encode=encode_with_control,
        decode=decode,
        mask_tokenizer=mask_tokenizer,
        progress=progress,
    )


def _let_threads_yield() -> None:
    """Let torch's threads wait for 0.2 ms before they sleep.

    By default they wait for milliseconds: if other processes use the cores too, a step then takes
    twenty times as long. If they sleep at once, waking them takes a third of the time of a token.
    torch reads the variables when it is loaded. Only GNU's library knows the second one.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)


def _demo_checkpoint(progress: Progress) -> str:
    from demo.checkpoint import CheckpointNotWritten, ensure

    try:
        return str(ensure(progress=progress))
    except CheckpointNotWritten as error:
        raise BackendFailed(str(error)) from error
