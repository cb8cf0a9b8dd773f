"""The default checkpoint, written to the user's cache on first use.

A tiny gpt-oss: the real configuration class, the real vocabulary, real files, which any engine that
loads gpt-oss loads. `ensure` expands the packaged trained weights; `ensure_random` draws random
ones, for whatever has to generate without ever stopping.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from demo.package import CONFIG, LEXICON, SHA256, packaged
from demo.tokenizer import Progress, write_tokenizer
from harmony.tokenizer import SPLIT_PATTERN

SEED = 0
FORMAT = 1
"""To be increased with each change of the code after which the same sources give other files."""


def ensure(
    cache_dir: Path | None = None, progress: Progress = lambda stage, fraction: None
) -> Path:
    """The trained checkpoint's folder, made if it is not there yet.

    cache_dir: where folders of all versions lie; by default the user's cache. `progress` is called
    with a stage and the fraction done in [0, 1]. A folder appears whole or not at all, also when
    several processes make it at once. Raises OSError where the folder cannot be written, and
    WeightsCorrupt where the package is damaged.
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
    root = cache_dir if cache_dir is not None else default_cache_dir()
    folder = root / name
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=root))
    try:
        write(draft, progress)
        draft.chmod(0o755)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same content
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    progress("checkpoint written", 1.0)
    return folder


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
    from demo.expand import expand
    from demo.weights import unpack

    expand(*unpack(packaged()), folder, progress=progress)


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
