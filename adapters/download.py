"""Downloads a checkpoint from the Hugging Face hub, and reports how much of it has arrived."""

import io
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.base import Progress
from adapters.errors import BackendFailed, one_line

if TYPE_CHECKING:
    from huggingface_hub import DryRunFileInfo

logger = logging.getLogger(__name__)

ENGINE_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
"""What engines read of a repository."""
OTHER_FORMATS = ("original/*", "metal/*")
"""Folders of gpt-oss's repositories that hold the same weights in formats of other programs."""

MAKE_ROOM = "make room there, or set HF_HOME to a folder on another disk"
"""What to do about `why_no_room`."""
_PATHS = ("/", ".", "~")
"""What a path begins with, and no name on the hub."""
_UNREACHABLE = (
    "the Hugging Face hub cannot be reached, and the model is not in the local cache; check the "
    "network, or set --model to a local folder"
)
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = {"1", "ON", "YES", "TRUE"}
_MARGIN = 1 << 30  # bytes that a download leaves free: a full disk breaks more than this server


def download(
    model: str,
    progress: Progress,
    revision: str | None = None,
    token: str | None = None,
    check: Callable[[int], None] = lambda size: None,
) -> None:
    """Bring the files of `model` into the hub's cache on this machine.

    token: of the hub; None for the one that is saved, or in the variable `HF_TOKEN`. check: gets
    the bytes of all files, cached ones included, before any is downloaded, and may raise.

    Does nothing for a folder, for a name that the cache holds whole, and for anything that is no
    name on the hub. Does nothing either if the hub cannot be reached but the cache has a part of
    the model: the engine then finds what it needs there, or says what it lacks. Raises
    BackendFailed for a path without a folder, for one that cannot be read, if the hub refuses or
    cannot be reached, if the disk has no room, and if a download breaks. Where
    `offline_variable` forbids asking the hub, it only checks that the cache has a part of the
    model, and raises BackendFailed otherwise.
    """
    try:
        if Path(model).exists():
            return
    except OSError as error:  # no permission, or a name that is too long
        raise BackendFailed(f"--model {model} cannot be read: {error.strerror}") from error
    if model.startswith(_PATHS):
        raise BackendFailed(
            f"there is no folder {model}; --model is a folder, or a name on the Hugging Face hub "
            "such as openai/gpt-oss-20b"
        )
    # It takes a while to load, and is not needed for a folder.
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(model)
    except HFValidationError:
        return
    repository = _Repository(model, revision, token)
    if variable := offline_variable():
        repository.require_cached(constants.HF_HUB_CACHE, variable)
        return
    files = repository.files()
    missing = [each for each in files if each.will_download]
    if not missing:
        return
    check(_bytes(files))
    total = _bytes(missing)
    _check_room(model, total, Path(constants.HF_HUB_CACHE))
    stage = f"downloading {model}, {_size(total)}"
    logger.info("%s in %d files, to %s", stage, len(missing), constants.HF_HUB_CACHE)
    progress(stage, 0.0)
    repository.download(_bar(total, lambda fraction: progress(stage, fraction)))
    progress(stage, 1.0)


def offline_variable() -> str | None:
    """The environment variable that forbids asking the hub; None where it may be asked.

    As in `huggingface_hub`, the first that is not empty decides.
    """
    name = next(filter(os.environ.get, _OFFLINE), None)
    return name if name and os.environ[name].upper() in _TRUE else None


@dataclass(frozen=True, slots=True)
class _Repository:
    """A model on the hub. revision and token are as of `download`."""

    name: str
    revision: str | None
    token: str | None

    def files(self) -> "list[DryRunFileInfo]":
        """The files that engines read; none if the hub is not reached, but the cache has some.

        Raises BackendFailed if the hub is not reached and the cache has none.
        """
        from huggingface_hub.errors import DryRunError

        try:
            files: list[DryRunFileInfo] = self._snapshot(
                dry_run=True, tqdm_class=_bar(0, lambda _: None)
            )
        except Exception as error:  # the connection's and the hub's have many classes
            cause = (error.__cause__ if isinstance(error, DryRunError) else None) or error
            if not self._is_cached():
                reason = one_line(cause) if _is_refusal(cause) else _UNREACHABLE
                raise BackendFailed(f"cannot download {self.name}: {reason}") from error
            logger.warning("the hub does not list %s: %s", self.name, one_line(cause))
            return []
        return files

    def download(self, bar: type[Any]) -> None:
        """Download the files that engines read. bar: the class of progress bars."""
        try:
            self._snapshot(tqdm_class=bar)
        except Exception as error:  # the connection's, the disk's and the hub's have many classes
            raise BackendFailed(f"cannot download {self.name}: {one_line(error)}") from error

    def _snapshot(self, **options: Any) -> Any:
        from huggingface_hub import snapshot_download

        return snapshot_download(
            self.name,
            revision=self.revision,
            token=self.token,
            allow_patterns=list(ENGINE_FILES),
            ignore_patterns=list(OTHER_FORMATS),
            **options,
        )

    def require_cached(self, cache: str, variable: str) -> None:
        """Raise BackendFailed if nothing of the model is in `cache`, the hub's.

        variable: the environment variable that forbids downloading it.
        """
        if not self._is_cached():
            raise BackendFailed(
                f"{self.name} is not in {cache}, and {variable} forbids downloading it; unset "
                f"{variable}, or set --model to a local folder"
            )

    def _is_cached(self) -> bool:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.name, "config.json", revision=self.revision)
        return isinstance(found, str)


def _bytes(files: "Iterable[DryRunFileInfo]") -> int:
    return sum(each.file_size or 0 for each in files)


def _is_refusal(error: BaseException) -> bool:
    """Whether the hub answered that there is no such repository, or not for this client."""
    response = getattr(error, "response", None)
    return getattr(response, "status_code", None) in (401, 403, 404)


def _bar(total: int, report: Callable[[float], None]) -> type[Any]:
    """A progress bar's class that shows nothing, and reports the fraction of bytes written."""
    from tqdm.auto import tqdm

    lock = threading.Lock()
    written = 0

    class Silent(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts = kwargs.get("desc", "").startswith("Reconstructing")
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal written
            if self._counts and total:
                with lock:
                    written += int(n or 0)
                report(min(1.0, written / total))
            drawn: bool | None = super().update(n)
            return drawn

    return Silent


def _check_room(model: str, size: int, cache: Path) -> None:
    if reason := why_no_room(size, cache):
        raise BackendFailed(f"{model} {reason}: {MAKE_ROOM}")


def why_no_room(size: int, cache: Path) -> str | None:
    """Why the disk of `cache` does not take a download of `size` bytes; None where it does."""
    try:
        folder = next(folder for folder in (cache, *cache.parents) if folder.exists())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"cannot be stored in {cache}: {error.strerror}"
    if free >= size + _MARGIN:
        return None
    needed = f"{_size(size)} and {_size(_MARGIN)} to spare"
    return f"needs {needed} on the disk of {cache}, which has {_size(free)} left"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
