from pathlib import Path

import pytest
from transformers import AutoConfig, GptOssConfig

from demo import checkpoint, expand, package


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "not" / "there yet"


@pytest.fixture(scope="module")
def stages() -> list[tuple[str, float]]:
    return []


@pytest.fixture(scope="module")
def folder(root: Path, stages: list[tuple[str, float]]) -> Path:
    return checkpoint.ensure(root, lambda *stage: stages.append(stage))


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


def test_a_failure_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(state: object, known: object, folder: Path, progress: object) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    monkeypatch.setattr(expand, "expand", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.ensure(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_rival_that_was_first_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = tmp_path / f"demo-{checkpoint.version(package.SHA256, package.LEXICON)}"

    def lose(state: object, known: object, folder: Path, progress: object) -> None:
        rival.mkdir()
        (rival / "model.safetensors").touch()

    monkeypatch.setattr(expand, "expand", lose)
    assert checkpoint.ensure(tmp_path) == rival
    assert (rival / "model.safetensors").exists()
    assert list(tmp_path.iterdir()) == [rival]


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
