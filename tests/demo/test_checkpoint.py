import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, GptOssConfig

from demo import checkpoint, embedding, expand, package
from demo.tokenizer import Progress, write_tokenizer

HOUR, DAY = 3_600, 86_400
FILES = {"model.safetensors": b"weights", "config.json": b"{}"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "not" / "there yet"


@pytest.fixture(scope="module")
def stages() -> list[tuple[str, float]]:
    return []


@pytest.fixture(scope="module")
def folder(root: Path, stages: list[tuple[str, float]]) -> Path:
    return checkpoint.ensure(root, lambda *stage: stages.append(stage))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of two small files, as private as those that safetensors writes."""

    def write(folder: Path, progress: Progress) -> None:
        for name, content in FILES.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)

    monkeypatch.setattr(checkpoint, "_write_trained", write)


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


def age(folder: Path, seconds: float) -> None:
    """Make it look as if the folder and its files were not used for so long."""
    past = time.time() - seconds
    for path in [*folder.iterdir(), folder]:
        os.utime(path, (past, past))


def test_the_folder_is_a_gpt_oss_checkpoint(folder: Path) -> None:
    config = AutoConfig.from_pretrained(folder)
    assert isinstance(config, GptOssConfig)
    assert config.vocab_size == 201_088
    assert (folder / "model.safetensors").is_file()


def test_progress_rises_to_one(folder: Path, stages: list[tuple[str, float]]) -> None:
    fractions = [fraction for _, fraction in stages]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_nothing_is_made_twice(folder: Path, root: Path) -> None:
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert checkpoint.ensure(root) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert list(root.iterdir()) == [folder]


def test_anybody_can_read_it(folder: Path) -> None:
    assert modes(folder) == {0o644}
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.usefixtures("small")
def test_all_of_it_is_on_the_disk_before_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()

    def sync(descriptor: int) -> None:
        assert [path.name[:7] for path in tmp_path.iterdir()] == [".draft-"]
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", sync)
    folder = checkpoint.ensure(tmp_path)
    assert synced == {path.stat().st_ino for path in [folder, *folder.iterdir()]}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a file is missing": lambda folder: (folder / "model.safetensors").unlink(),
    "a file is cut": lambda folder: cut(folder / "model.safetensors"),
    "the sizes are missing": lambda folder: (folder / checkpoint.SIZES).unlink(),
    "the sizes are cut": lambda folder: cut(folder / checkpoint.SIZES),
    "the sizes are no object": lambda folder: rewrite(folder / checkpoint.SIZES, "1"),
    "the sizes are a list": lambda folder: rewrite(folder / checkpoint.SIZES, "[]"),
    "no sizes are named": lambda folder: rewrite(folder / checkpoint.SIZES, "{}"),
    "nothing is left": empty,
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_folder_is_mended(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = checkpoint.ensure(tmp_path)
    assert checkpoint.is_whole(folder)
    damage(folder)
    assert not checkpoint.is_whole(folder)
    assert checkpoint.ensure(tmp_path) == folder
    assert checkpoint.is_whole(folder)
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert modes(folder) == {0o644}
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.usefixtures("small")
def test_those_who_mend_a_folder_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    folder = checkpoint.ensure(tmp_path)

    def mend_and_read() -> bool:
        checkpoint.ensure(tmp_path)
        return all(checkpoint.is_whole(folder) for _ in range(100))

    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            (folder / "model.safetensors").unlink()
            assert all(done.result() for done in [threads.submit(mend_and_read) for _ in range(4)])
    assert list(tmp_path.iterdir()) == [folder]


def test_a_failure_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(state: object, known: object, folder: Path, progress: object) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    monkeypatch.setattr(expand, "expand", fail)
    with pytest.raises(checkpoint.CheckpointNotWritten, match="disk full"):
        checkpoint.ensure(tmp_path)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def small_files() -> Iterator[None]:
    """A context in which this process writes no file of more than a megabyte."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


WRITERS: dict[str, Callable[[Path], None]] = {
    "tokenizers": lambda folder: write_tokenizer(folder, lambda stage, fraction: None),
    "safetensors": lambda folder: save_file({"a": torch.zeros(1 << 20)}, folder / "a.safetensors"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_that_does_not_fit_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(checkpoint, "_write_trained", lambda folder, progress: write(folder))
    with small_files(), pytest.raises(checkpoint.CheckpointNotWritten) as caught:
        checkpoint.ensure(tmp_path)
    folder = tmp_path / checkpoint.trained_name()
    message = str(caught.value)
    assert message.startswith(f"cannot write the demo checkpoint to {folder}: ")
    assert "File too large" in message
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", [".", "folder"])
def test_a_cache_that_is_a_file_is_told_in_one_line(tmp_path: Path, below: str) -> None:
    (tmp_path / "cache").touch()
    root = tmp_path / "cache" / below
    with pytest.raises(checkpoint.CheckpointNotWritten) as caught:
        checkpoint.ensure(root)
    folder = root / checkpoint.trained_name()
    assert str(caught.value) == f"cannot write the demo checkpoint to {folder}: Not a directory"


def test_a_damaged_package_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "SHA256", "other")
    with pytest.raises(checkpoint.CheckpointNotWritten, match="not hold the published weights"):
        checkpoint.ensure(tmp_path)


@pytest.mark.usefixtures("small")
def test_a_rival_that_was_first_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoint._write_trained

    def lose(folder: Path, progress: Progress) -> None:
        write(folder, progress)
        monkeypatch.setattr(checkpoint, "_write_trained", write)
        rivals.append(files(checkpoint.ensure(tmp_path)))

    def files(folder: Path) -> set[int]:
        return {path.stat().st_ino for path in [folder, *folder.iterdir()]}

    rivals: list[set[int]] = []
    monkeypatch.setattr(checkpoint, "_write_trained", lose)
    folder = checkpoint.ensure(tmp_path)
    assert rivals == [files(folder)]
    assert list(tmp_path.iterdir()) == [folder]


LEFTOVERS = [
    (".draft-a1b2c3d4", 2 * HOUR, False),
    (".draft-a1b2c3d4", HOUR / 2, True),
    ("demo-0123456789ab", 31 * DAY, False),
    ("random-0123456789ab", 31 * DAY, False),
    ("demo-0123456789ab", 29 * DAY, True),
    ("demo-of-mine", 31 * DAY, True),
    ("mine", 31 * DAY, True),
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("name", "seconds", "stays"), LEFTOVERS)
def test_what_nobody_uses_is_removed(
    tmp_path: Path, name: str, seconds: float, stays: bool, is_first: bool
) -> None:
    if not is_first:
        checkpoint.ensure(tmp_path)
    other = tmp_path / name
    other.mkdir()
    (other / "model.safetensors").touch()
    age(other, seconds)
    checkpoint.ensure(tmp_path)
    assert other.exists() == stays


@pytest.mark.usefixtures("small")
def test_what_was_read_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint.ensure(tmp_path)
    age(folder, 31 * DAY)
    os.utime(folder / "config.json", (time.time(), time.time() - 31 * DAY))
    monkeypatch.setattr(checkpoint, "FORMAT", 0)
    assert checkpoint.ensure(tmp_path) != folder
    assert checkpoint.is_whole(folder)


@pytest.mark.usefixtures("small")
def test_use_is_marked_where_the_file_system_does_not_record_reading(tmp_path: Path) -> None:
    folder = checkpoint.ensure(tmp_path)
    age(folder, 31 * DAY)
    checkpoint.ensure(tmp_path)
    assert (folder / checkpoint.SIZES).stat().st_mtime > time.time() - DAY


def test_no_table_is_kept_after_the_expansion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = [
        value.cache_info
        for value in vars(embedding).values()
        if hasattr(value, "cache_info") and value.__module__ == embedding.__name__
    ]

    def compute(state: object, known: object, folder: Path, progress: object) -> None:
        for table in (embedding.tagged, embedding.families, embedding.features, embedding.pieces):
            table()
        assert all(info().currsize for info in caches)

    monkeypatch.setattr(expand, "expand", compute)
    checkpoint.ensure(tmp_path)
    assert not any(info().currsize for info in caches)


@pytest.mark.parametrize(
    ("name", "value"), [("SHA256", "other"), ("LEXICON", "other"), ("FORMAT", 0), ("CONFIG", {})]
)
def test_what_the_files_depend_on_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    def write(folder: Path, progress: object) -> None:
        (folder / "model.safetensors").touch()

    monkeypatch.setattr(checkpoint, "_write_trained", write)
    usual = checkpoint.ensure(tmp_path)
    monkeypatch.setattr(checkpoint, name, value)
    assert checkpoint.ensure(tmp_path) != usual


def test_the_default_place_is_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert checkpoint.default_cache_dir() == tmp_path / "gpt-oss-server"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checkpoint.default_cache_dir() == tmp_path / ".cache" / "gpt-oss-server"


def test_random_weights_are_a_checkpoint_of_their_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    monkeypatch.setattr(checkpoint, "write_tokenizer", lambda folder, _: written.append(folder))
    drawn = checkpoint.ensure_random(tmp_path)
    assert [place.parent for place in written] == [tmp_path]
    assert drawn.name != folder.name
    assert isinstance(AutoConfig.from_pretrained(drawn), GptOssConfig)
    assert (drawn / "model.safetensors").is_file()
    assert modes(drawn) == {0o644}
