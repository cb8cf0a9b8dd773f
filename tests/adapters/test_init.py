import inspect
from types import ModuleType

import pytest

import adapters
from adapters import base, errors


@pytest.mark.parametrize("module", [base, errors])
def test_all_types_of_the_interface_are_exported(module: ModuleType) -> None:
    classes = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    assert classes <= set(adapters.__all__)


def test_all_that_is_exported_exists() -> None:
    assert all(hasattr(adapters, name) for name in adapters.__all__)
