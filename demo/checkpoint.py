"""The default checkpoint, written to the user's cache on first use.

A tiny gpt-oss: the real configuration class, the real vocabulary, real files, which any engine that
loads gpt-oss loads. `ensure` expands the packaged trained weights; `ensure_random` draws random
ones, for whatever has to generate without ever stopping.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from safetensors import SafetensorError

from demo.package import CONFIG, LEXICON, SHA256, WeightsCorrupt, packaged
from demo.tokenizer import Progress, write_tokenizer
from harmony.tokenizer import SPLIT_PATTERN

SEED = 0
FORMAT = 1
"""To be increased with each change of the code after which the same sources give other files."""

SIZES = "sizes.json"
"""The file of a folder that has the sizes in bytes of all others. The last to be written."""

_LEFTOVERS = (
    (re.compile(r"\.draft-.*"), 3_600.0),
    (re.compile(r"(demo|random)-[0-9a-f]{12}"), 30 * 86_400.0),
)
"""Names of folders that may be removed, and after how many seconds without use."""


class CheckpointNotWritten(OSError):
    """The checkpoint's folder cannot be written. The message is one line for the user."""


def ensure(
    cache_dir: Path | None = None, progress: Progress = lambda stage, fraction: None
) -> Path:
    """The trained checkpoint's folder, made if it is not there yet, or not whole.

    cache_dir: where folders of all versions lie; by default the user's cache. `progress` is called
    with a stage and the fraction done in [0, 1]. A folder appears whole or not at all, also when
    several processes make it at once, and anybody can read it. Raises CheckpointNotWritten where
    the folder cannot be written, or the package is damaged.

    What nobody needs is removed from `cache_dir`: unfinished folders of killed processes after an
    hour, and other checkpoints, such as those of earlier versions, after 30 days in which no call
    returned them, and nobody read or wrote a file of theirs. Some file systems do not record what
    is read. There, a program that never calls this may lose a folder of another version.
    """
    return _ensure(trained_name(), _write_trained, cache_dir, progress)


def ensure_random(
    cache_dir: Path | None = None, progress: Progress = lambda stage, fraction: None
) -> Path:
    """As `ensure`, with random weights: what it says has no meaning and no end."""
    return _ensure(f"random-{version(SEED)}", _write_random, cache_dir, progress)


def _ensure(
    name: str, write: Callable[[Path, Progress], None], cache_dir: Path | None, progress: Progress
) -> Path:
    folder = (cache_dir if cache_dir is not None else default_cache_dir()) / name
    if not is_whole(folder):
        try:
            _write_anew(folder, write, progress)
        except (OSError, SafetensorError, WeightsCorrupt) as error:
            reason = getattr(error, "strerror", None) or error
            message = f"cannot write the demo checkpoint to {folder}: {reason}"
            raise CheckpointNotWritten(message) from error
        progress("checkpoint written", 1.0)
    with suppress(OSError):  # a cache that others own needs no mark of its use
        os.utime(folder / SIZES)
    _remove_leftovers(folder)
    return folder


def is_whole(folder: Path) -> bool:
    """Whether all files are there in full size. Takes a tenth of a millisecond."""
    try:
        sizes = json.loads((folder / SIZES).read_bytes())
        found = {name: (folder / name).stat().st_size for name in sizes}
        return bool(sizes) and found == sizes
    except (OSError, TypeError, ValueError):
        return False


def _write_anew(folder: Path, write: Callable[[Path, Progress], None], progress: Progress) -> None:
    with suppress(FileExistsError):  # that it is no folder is what the next line says
        folder.parent.mkdir(parents=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        write(draft, progress)
        _seal(draft)
        _put_in_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _seal(draft: Path) -> None:
    """Write SIZES, let anybody read the files, and wait until a power cut cannot lose them."""
    sizes = {path.name: path.stat().st_size for path in draft.iterdir()}
    (draft / SIZES).write_text(json.dumps(sizes))
    for path in draft.iterdir():
        path.chmod(0o644)  # safetensors leaves its files to their owner alone
        _sync(path)
    draft.chmod(0o755)
    _sync_folder(draft)


def _put_in_place(draft: Path, folder: Path) -> None:
    """Make `draft` the `folder`, or mend the one that is there.

    It is mended file by file: another process may have mended it since, and reads it already. Each
    file is there at all times, and SIZES is the last to come.
    """
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        if is_whole(folder):  # another process was first, with the same content
            return
        for path in sorted(draft.iterdir(), key=lambda path: path.name == SIZES):
            path.replace(folder / path.name)
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems of networks cannot
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """Remove what nobody has used for long beside `folder`: see `ensure`."""
    with suppress(OSError):  # a cache that others own may not be listed
        for path in folder.parent.iterdir():
            for name, seconds in _LEFTOVERS:
                is_leftover = name.fullmatch(path.name) and path != folder
                if is_leftover and _unused_seconds(path) > seconds:
                    shutil.rmtree(path, ignore_errors=True)


def _unused_seconds(folder: Path) -> float:
    """The time since a file was written or read; 0 where that cannot be known.

    When the folder itself was read says nothing: to look for leftovers is to read it.
    """
    try:
        states = [path.stat() for path in folder.iterdir()]
        used = [max(state.st_atime, state.st_mtime) for state in states]
        return time.time() - max(used, default=folder.stat().st_mtime)
    except OSError:
        return 0.0


def default_cache_dir() -> Path:
    """`gpt-oss-server` in the user's cache folder; on Linux XDG_CACHE_HOME or `~/.cache`."""
    return user_cache_path("gpt-oss-server", appauthor=False)


def trained_name() -> str:
    """The name of the trained checkpoint's folder."""
    return f"demo-{version(SHA256, LEXICON)}"


def version(*sources: str | int) -> str:
    """A name for what is written from `sources`; changes with them, CONFIG and FORMAT."""
    content = json.dumps([*sources, FORMAT, CONFIG, SPLIT_PATTERN], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _write_trained(folder: Path, progress: Progress) -> None:
    from demo.embedding import forget_tables
    from demo.expand import expand
    from demo.weights import unpack

    expand(*unpack(packaged()), folder, progress=progress)
    forget_tables()  # a server runs for long, and needs none of them


def _write_random(folder: Path, progress: Progress) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GptOssConfig

    write_tokenizer(folder, progress)
    progress("drawing weights", 0.5)
    build: Any = AutoModelForCausalLM.from_config
    random = CONFIG | {"tie_word_embeddings": True, "initializer_range": 0.1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = build(GptOssConfig(**random), dtype=torch.bfloat16)
    progress("writing weights", 0.8)
    model.save_pretrained(folder)
