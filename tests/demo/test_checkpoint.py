from pathlib import Path

import pytest
from transformers import AutoConfig, AutoTokenizer, GptOssConfig

from demo import checkpoint
from harmony.tokenizer import encode, encode_with_control


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


def test_its_tokenizer_agrees_with_the_packaged_vocabulary(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "Hello wörld! it's  \n\n 12345 DON'T 日本語\u3000 \t x/y\r\n  e\u0301 🤷🏽"
    assert tokenizer(text).input_ids == encode(text)
    assert tokenizer.decode(encode(text)) == text
    harmony = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    assert tokenizer(harmony).input_ids == encode_with_control(harmony)


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
    def fail(folder: Path, progress: object) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "write_tokenizer", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.ensure(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_rival_that_was_first_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = tmp_path / f"random-{checkpoint.version()}"

    def lose(folder: Path, progress: object) -> None:
        rival.mkdir()
        (rival / "model.safetensors").touch()

    monkeypatch.setattr(checkpoint, "write_tokenizer", lose)
    monkeypatch.setattr(checkpoint, "_write_model", lambda folder, progress: None)
    assert checkpoint.ensure(tmp_path) == rival
    assert (rival / "model.safetensors").exists()
    assert list(tmp_path.iterdir()) == [rival]


def test_the_default_place_is_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert checkpoint.default_cache_dir() == tmp_path / "gpt-oss-server"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checkpoint.default_cache_dir() == tmp_path / ".cache" / "gpt-oss-server"
