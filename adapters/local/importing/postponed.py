"""Work that transformers does while it is imported, done when something needs it.

A third of the time of its import goes into finding out what it contains, for all of its models
(`transformers/__init__.py` reads 1,600 files), and which distribution contains each package
that is installed.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

_NAME = "transformers"
_PACKAGES = (_NAME, f"{_NAME}.models")

_all_distributions = importlib.metadata.packages_distributions


def postpone_contents() -> None:
    """Let submodules of transformers be imported without the list of what it contains.

    Its `__init__` runs when anything but a submodule is used, such as `transformers.AutoModel`.
    Only then do the submodules exist that it makes for older names, such as
    `transformers.tokenization_utils_fast`.
    Does nothing if transformers is imported already, or not installed.
    """
    if _NAME in sys.modules:
        return
    path = None
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.submodule_search_locations is None:
            return
        package = _Postponed(name)
        package.__spec__, package.__file__ = spec, spec.origin
        package.__path__ = path = list(spec.submodule_search_locations)
        sys.modules[name] = package
    vars(sys.modules[_NAME])["__version__"] = importlib.metadata.version(_NAME)


class _Postponed(ModuleType):
    """Stands for a package until something but its submodules is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if PathFinder.find_spec(f"{self.__name__}.{name}", self.__path__):
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(self._package(), name)

    def __dir__(self) -> list[str]:
        return dir(self._package())

    def _package(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


@contextmanager
def distributions_on_demand() -> Iterator[None]:
    """In this context, `importlib.metadata.packages_distributions` looks for what is asked only."""
    importlib.metadata.packages_distributions = _Distributions
    try:
        yield
    finally:
        importlib.metadata.packages_distributions = _all_distributions


class _Distributions(Mapping[str, list[str]]):
    """The names of the distributions that contain each package. Most have the same name."""

    def __getitem__(self, package: str) -> list[str]:
        try:
            importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            return self._all[package]
        return [package]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _all(self) -> Mapping[str, list[str]]:
        return _all_distributions()
