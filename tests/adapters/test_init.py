import inspect

import adapters
from adapters import base, errors


def test_all_errors_of_a_backend_are_exported() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert classes <= set(adapters.__all__)


def test_all_types_of_the_interface_are_exported() -> None:
    classes = {
        name
        for name, value in vars(base).items()
        if inspect.isclass(value) and value.__module__ == base.__name__
    }
    assert classes <= set(adapters.__all__)
    assert all(hasattr(adapters, name) for name in adapters.__all__)
