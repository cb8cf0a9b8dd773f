"""Search providers by name: `NAME` or `NAME:ARGUMENT`."""

from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from server.tools.browser.search.base import (
    GROUP,
    ProviderFactory,
    ProviderOptions,
    SearchProvider,
)

_SERVICES = "server.tools.browser.search.services"
_BUILT_IN = {
    entry.name: entry
    for entry in (
        EntryPoint("files", "server.tools.browser.search.files:FilesProvider", GROUP),
        EntryPoint("searxng", f"{_SERVICES}:SearxngProvider", GROUP),
        EntryPoint("brave", f"{_SERVICES}:BraveProvider", GROUP),
        EntryPoint("tavily", f"{_SERVICES}:TavilyProvider", GROUP),
        EntryPoint("exa", f"{_SERVICES}:ExaProvider", GROUP),
        EntryPoint("you", f"{_SERVICES}:YouProvider", GROUP),
    )
}


def create(specs: Iterable[str], options: ProviderOptions) -> list[SearchProvider]:
    """The providers of `--search`, not started. Raises ValueError for an unknown or invalid one.

    options: what all are made of; each gets its own argument.
    """
    return [_create(spec, options) for spec in specs]


def check(spec: str) -> str:
    """The text, if it names a provider, and the argument is valid. Raises ValueError.

    Arguments of third parties are for them to check when the provider is made.
    """
    name = spec.partition(":")[0]
    _entry(name)
    if name in _BUILT_IN:
        _create(spec, ProviderOptions())
    return spec


def _create(spec: str, options: ProviderOptions) -> SearchProvider:
    name, _, argument = spec.partition(":")
    factory: ProviderFactory = _entry(name).load()
    return factory(replace(options, argument=argument))


def _entry(name: str) -> EntryPoint:
    entry = _BUILT_IN.get(name)
    if entry is not None:
        return entry
    for found in entry_points(group=GROUP, name=name):
        return found
    raise ValueError(f"{name!r} is no search provider; there are {', '.join(_BUILT_IN)}")
