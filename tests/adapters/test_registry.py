from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from adapters import registry
from adapters.base import BackendConfig
from adapters.errors import BackendFailed, UnknownBackend
from adapters.scripted import ScriptedBackend


@pytest.fixture
def config() -> BackendConfig:
    return BackendConfig(None, {}, lambda text: [], lambda ids: "", lambda: None)


def install(monkeypatch: pytest.MonkeyPatch, **backends: str) -> None:
    found = EntryPoints(EntryPoint(*item, registry.GROUP) for item in backends.items())
    monkeypatch.setattr(registry, "entry_points", lambda group: found.select(group=group))


def test_makes_a_built_in_backend(config: BackendConfig) -> None:
    assert isinstance(registry.create("scripted", config), ScriptedBackend)


def test_an_unknown_name_is_refused_with_the_known_names(config: BackendConfig) -> None:
    with pytest.raises(UnknownBackend, match=r"'nope'; known are .*scripted.*transformers") as info:
        registry.create("nope", config)
    assert set(info.value.known) >= {"scripted", "transformers"}


def test_an_installed_entry_point_is_a_backend(
    config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, mine="collections:namedtuple", other="adapters.scripted:ScriptedBackend")
    assert isinstance(registry.create("other", config), ScriptedBackend)
    assert "mine" in registry.names()


def test_a_built_in_name_cannot_be_taken_over(
    config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, scripted="no.such.module:Thing")
    assert isinstance(registry.create("scripted", config), ScriptedBackend)


@pytest.mark.parametrize("place", ["collections:no_such_thing", "no_such_thing:Backend"])
def test_a_backend_names_what_it_lacks(
    config: BackendConfig, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    install(monkeypatch, broken=place)
    with pytest.raises(BackendFailed, match=r"broken backend cannot be imported.*no_such_thing"):
        registry.create("broken", config)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("OSError('libcudart.so: cannot open')", r"cannot be imported: libcudart"),
        ("ModuleNotFoundError(name='vllm')", r"\.venv-vllm/bin/pip install '\.\[vllm\]'$"),
    ],
)
def test_a_backend_names_the_library_that_does_not_load(
    error: str,
    reason: str,
    config: BackendConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "needs_a_library.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, broken="needs_a_library:Backend")
    with pytest.raises(BackendFailed, match=f"broken backend .*{reason}"):
        registry.create("broken", config)
