"""What transformers would do while it is imported. See also test_imports.py."""

import importlib.metadata

import pytest

from adapters.local.importing import postponed
from adapters.local.importing.postponed import distributions_on_demand, postpone_contents


def test_distributions_are_the_same_on_demand() -> None:
    everything = importlib.metadata.packages_distributions()
    with distributions_on_demand():
        on_demand = importlib.metadata.packages_distributions()
        assert on_demand["torch"] == everything["torch"]
        assert on_demand["yaml"] == everything["yaml"]
        assert on_demand.get("no_such_package") is None
        assert dict(on_demand).keys() == everything.keys()
        assert len(on_demand) == len(everything)
    assert importlib.metadata.packages_distributions() == everything


def test_a_package_that_is_not_installed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed, "_NAME", "no_such_package")
    monkeypatch.setattr(postponed, "_PACKAGES", ("no_such_package",))
    postpone_contents()
    with pytest.raises(ModuleNotFoundError):
        __import__("no_such_package")
